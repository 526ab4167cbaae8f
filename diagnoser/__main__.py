"""`python -m diagnoser`."""

from diagnoser.cli.main import entry

entry()
