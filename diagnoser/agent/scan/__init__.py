"""Many incidents at once: each is read and judged by itself, by processes of this machine or of a cluster."""
