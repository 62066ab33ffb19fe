"""The command line: tune any program that prints its result, and look at studies."""

from farthing.cli.entry import app, main

__all__ = ["app", "main"]
