"""`lieattn realdata`: models and simple rivals on real poses of the paper's six groups."""
