"""The embedded group coordinator, for demos, tests and simulation; never for production data.

KIP-848 consumer groups and classic groups as a sans-IO state machine, and a small in-memory broker around it. It
imports nothing of the proxy or of the translation.
"""
