"""The command ``treet``: it parses, calls the library and prints; no method lives here."""

# The commands add themselves to the app.
from treet.cli import (  # noqa: F401
    capacity,
    datasets,
    density,
    estimate,
    reproduce,
    scan,
    simulate,
)
from treet.cli.entry import app, main

__all__ = ["app", "main"]
