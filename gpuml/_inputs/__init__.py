"""What users pass to estimators becomes arrays, or a clear error."""
