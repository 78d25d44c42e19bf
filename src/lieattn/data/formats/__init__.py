"""Readers of files of poses: one file a format."""
