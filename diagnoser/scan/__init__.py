"""Finds which literals stand where, in one pass over raw bytes.

Two engines give the same answer: `hyperscan` where a wheel exists, `naive` everywhere.
"""
