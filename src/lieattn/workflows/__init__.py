"""Training on poses of files: `lieattn train`, `predict`, `evaluate`."""
