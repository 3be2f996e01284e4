"""The embedded group coordinator, for demos, tests and simulation; never for production data.

KIP-848 consumer groups and classic groups as a sans-IO state machine, and the small in-memory broker
around it. Nothing of the proxy or of the translation may be imported here.
"""
