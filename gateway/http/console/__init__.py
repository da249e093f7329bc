"""The console: its built files, and who serves them."""

from gateway.http.console.files import DIST, PREFIX, ConsoleFiles

__all__ = ["DIST", "PREFIX", "ConsoleFiles"]
