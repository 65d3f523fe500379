"""What is kept of models on disk, in pickles and as scikit-learn estimators."""
