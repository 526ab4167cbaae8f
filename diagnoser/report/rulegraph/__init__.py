"""The rule graph as one HTML file that needs no network."""

from diagnoser.report.rulegraph.page import page

__all__ = ["page"]
