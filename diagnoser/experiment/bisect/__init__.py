"""Which difference between a good and a bad configuration is guilty, in as few restarts as can be."""
