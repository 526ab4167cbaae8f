"""The confirming re-benchmark: arms, launches, load, guards, statistics, journal, verdict."""
