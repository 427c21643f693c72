"""The command ``treet``: it parses, calls the library and prints; no method lives here."""

from treet.cli import estimate, reproduce, simulate  # noqa: F401  the commands add themselves to the app
from treet.cli.entry import app, main

__all__ = ["app", "main"]
