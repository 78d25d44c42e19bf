"""The experiments of the paper: sequence completion, its controls and its tables."""
