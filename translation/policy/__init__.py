"""Which groups are translated, and with which assignor: the operator's policy."""
