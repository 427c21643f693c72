"""Which versions a number was computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "transfer-entropy"
OTHERS = ("torch", "numpy", "scipy")


def treet_version() -> str:
    """The installed version; "unknown" where the package runs from a folder that was never installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """treet, Python and the libraries that decide a number, with the kind of machine."""
    found = {"treet": treet_version(), "Python": platform.python_version()}
    found |= {name: version(name) for name in OTHERS}
    return found | {"machine": f"{platform.system()} {platform.machine()}"}
