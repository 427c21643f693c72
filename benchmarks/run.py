"""All benchmarks, then the page of results.

    python benchmarks/run.py [--again] [--quick] [--results DIR]

What is measured already, with the same code in ``src/``, is not measured again without ``--again``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from harness import RESULTS, add_options, results_folder
from tables import PAGE, SECTIONS, write_page


def main() -> int:
    options = add_options(argparse.ArgumentParser(description="Run all benchmarks.")).parse_args()
    results = results_folder(options)
    flags = ["--results", str(results), *(["--again"] * options.again), *(["--quick"] * options.quick)]
    scripts = [benchmark.script for benchmark, _ in SECTIONS.values()]
    failed = [script for script in scripts if subprocess.run([sys.executable, script, *flags]).returncode]
    write_page(results, PAGE if results.resolve() == RESULTS else results / PAGE.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
