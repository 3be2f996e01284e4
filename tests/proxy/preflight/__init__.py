"""The preflight: its checks on facts made by hand, and brokers asked on loopback."""
