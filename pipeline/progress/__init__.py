"""Reports progress during a migration: how far each group is, how long its members paused, and which are stuck.

``streams`` follows the journal with Structured Streaming and keeps what is needed, ``pauses`` derives from it how long
members stood still, ``job`` runs both.
"""
