"""Settings, and what is said of a run: versions, self-diagnosis, progress."""
