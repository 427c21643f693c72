"""Fan charts hold the quantiles of the density and what came true."""

import numpy as np
import pytest
from matplotlib._pylab_helpers import Gcf

from treet.density.conditional import ConditionalDensity
from treet.density.plots import BANDS, FIRST_STEPS, plot_density
from treet.errors import TreetError
from treet.plots import figure_of, save_figure
from treet.processes.hidden_markov import HiddenMarkov

PROCESS = HiddenMarkov()
VALUES = PROCESS.sample(400, 0).trials[0][:, 1]


def of(values=VALUES):
    return PROCESS.density(values, memory=2)


def drawn(ax):
    return {line.get_label(): np.asarray(line.get_ydata()) for line in ax.get_lines()}


def test_lines_and_bands_are_those_of_the_density():
    density = of()
    ax = plot_density(density)
    shown = density[:FIRST_STEPS]
    np.testing.assert_allclose(drawn(ax)["median"], shown.quantile(0.5))
    np.testing.assert_array_equal(drawn(ax)["observed"], shown.observed)
    assert len(ax.collections) == len(BANDS)
    for band, shade in zip(BANDS, ax.collections, strict=True):
        low, high = shown.interval(band)
        heights = shade.get_paths()[0].vertices[:, 1]
        assert heights.min() == pytest.approx(low.min())
        assert heights.max() == pytest.approx(high.max())


def test_gaps_break_the_bands_and_other_steps_can_be_chosen():
    values = VALUES.copy()
    values[20] = np.nan
    ax = plot_density(of(values)[10:30])
    assert np.flatnonzero(np.isnan(drawn(ax)["median"])).tolist() == [8, 9, 10]
    assert ax.get_lines()[0].get_xdata()[0] == 12


def test_words_axes_and_nothing_of_pyplot(tmp_path):
    before = list(Gcf.figs)
    density = of()
    named = ConditionalDensity(density.factors, density.windows)
    named.windows.names["target"] = ("price $",)
    ax = named.plot()
    assert list(Gcf.figs) == before
    assert ax.get_xlabel() == "time step" and ax.get_ylabel() == r"price \$"
    assert ax.get_title(loc="left") == r"price \$ given the past"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["95% of the density", "80% of the density", "50% of the density", "median", "observed"]
    assert plot_density(density, ax) is ax
    save_figure(figure_of(ax), tmp_path / "fan.png")
    assert (tmp_path / "fan.png").stat().st_size > 10_000


def test_a_channel_that_is_not_there():
    with pytest.raises(TreetError, match=r"channel must be below 1\. Got 1"):
        plot_density(of(), channel=1)
