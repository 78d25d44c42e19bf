"""`lieattn data`: what is in files of poses."""
