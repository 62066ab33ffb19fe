"""The studies of a database, live in a browser; needs the extra `dashboard`."""

from farthing.dashboard.serve import serve

__all__ = ["serve"]
