"""Stand-ins for the proxy's neighbours: bytes of clients, a scripted broker, a scripted translation."""
