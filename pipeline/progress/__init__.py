"""During the migration: how far each group is, what it costs its members, and who is stuck.

``streams`` follows the journal with Structured Streaming and keeps what is needed, ``pauses`` derives from it how long
members stood still, ``job`` runs both.
"""
