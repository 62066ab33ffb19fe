"""The live dashboard: the studies of a database in a browser; needs the extra `dashboard`."""

from farthing.dashboard.serve import serve

__all__ = ["serve"]
