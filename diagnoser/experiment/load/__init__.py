"""The load generator: prompts go to a running server on a schedule, what comes back is timed."""
