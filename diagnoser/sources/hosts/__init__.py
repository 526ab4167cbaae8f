"""Machines that are looked at: over SSH or this one, read-only, every command written down."""
