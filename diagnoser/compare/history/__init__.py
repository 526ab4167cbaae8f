"""What was measured and diagnosed earlier: kept, found again, and each new result held against its own past."""
