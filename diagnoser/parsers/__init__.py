"""Texts become facts, one module per format."""
