"""Two sides held beside each other: what differs, what of it can matter."""
