"""Experiments and reports; needs the extra [lab]."""
