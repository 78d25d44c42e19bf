"""`lieattn bench`: time and memory of the attention operator beside plain attention and others."""
