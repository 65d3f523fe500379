"""Ways between cuML's models and scikit-learn's, for rows whose `convert` is not cuML's own."""
