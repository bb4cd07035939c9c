"""The family and many devices: chapters 11 to 13."""
