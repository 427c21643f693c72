"""The command ``treet``: it parses, calls the library and prints; no method lives here."""

# The commands add themselves to the app.
from treet.cli import capacity, datasets, estimate, reproduce, scan, simulate  # noqa: F401
from treet.cli.entry import app, main

__all__ = ["app", "main"]
