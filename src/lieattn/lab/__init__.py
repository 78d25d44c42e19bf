"""Experiments and reports; needs the extra [lab]."""

MAX_SEED = 2**63 - 1  # of torch's generators
