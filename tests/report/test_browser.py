"""The pages in a browser without a network: nothing is asked for, nothing complains, pointing works."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from treet.data import Recording
from treet.estimators.gaussian import GaussianTE
from treet.lag_scan import scan
from treet.processes import DelayedLinear
from treet.report import write_report
from treet.report.scans import write_scan_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

HOSTILE = '<script>document.title="run"</script>'
OF_BROWSER = "not an origin"
WIDTHS = {"desktop": 1200, "phone": 390}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Both kinds of page, of series with a hostile name."""
    folder = tmp_path_factory.mktemp("pages")
    recording = DelayedLinear(delay=3).sample(600, random_state=0)
    x, y = recording.select("x"), Recording(recording.select("y").trials, (HOSTILE,))
    series = Recording(recording.trials, ("x", HOSTILE))
    results = [GaussianTE(memory=4).fit(*pair).result_ for pair in ((x, y), (y, x))]
    write_report(results, folder / "estimate.html", None, series)
    found = [
        scan(*pair, delay=range(1, 8), source_history=1, estimator="gaussian") for pair in ((x, y), (y, x))
    ]
    write_scan_report(found, folder / "scan.html", None, series)
    return folder


def opened(path, folder, width=1200):
    """The page after its scripts ran, what the browser complained of, and what the page asked for."""
    log = folder / "net.json"
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    command += [f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", f"--window-size={width},900"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, complaints, requests_in(log.read_text(encoding="utf-8"))


def requests_in(log):
    """The addresses that a page asked for: what the browser does by itself has no origin."""
    asked = [event.get("params", {}) for event in json.loads(log)["events"]]
    return [
        each["url"] for each in asked if "url" in each and each.get("initiator", OF_BROWSER) != OF_BROWSER
    ]


def test_a_page_that_asks_for_something_is_found_out(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<img src="http://example.org/x.png"><script>throw "oh"</script>')
    _, complaints, requests = opened(page, tmp_path)
    assert requests == ["http://example.org/x.png"]
    assert any("oh" in line for line in complaints)


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("name", ["estimate", "scan"])
def test_a_page_asks_for_nothing_and_no_error_is_logged(name, width, pages, tmp_path):
    path = pages / f"{name}.html"
    text, complaints, requests = opened(path, tmp_path, width)
    assert (complaints, requests) == ([], [])
    assert "<title>run" not in text
    assert "&lt;script&gt;document.title" in text
    if name == "estimate":
        readouts = re.findall(r"<output>([^<]*)</output>", text)
        assert len(readouts) == 2
        assert all(re.match(r"Time steps 0 to 599: -?[\d.e-]+ to [\d.e-]+ nats", words) for words in readouts)
    else:
        assert text.count('class="mark"') == 14


def test_marks_lie_on_the_points_they_speak_of(pages):
    text = (pages / "scan.html").read_text(encoding="utf-8")
    marks = [
        (float(across), float(down), words)
        for across, down, words in re.findall(
            r'<circle class="mark"[^>]*cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>([^<]*)</title>', text
        )
    ]
    assert len(marks) == 14
    first = [mark for mark in marks if mark[2].startswith("x -&gt;")]
    steps = np.diff([across for across, _, _ in first])
    np.testing.assert_allclose(steps, steps[0], atol=0.2)
    highest = min(first, key=lambda mark: mark[1])
    assert "source lag 3" in highest[2]
    assert json.dumps(highest[2]).count("nats") == 1
