"""Settings and reports: versions, self-diagnosis, progress."""
