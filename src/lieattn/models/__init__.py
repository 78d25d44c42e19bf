"""Whole models, and the neural rivals that they are compared with."""
