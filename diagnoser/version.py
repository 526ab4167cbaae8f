"""The version of the product."""

__version__ = "0.1.0"
