"""Reports progress during a migration: how far each group is, how long members paused, and which members are stuck.

``streams`` follows the journal with Structured Streaming and keeps what is needed, ``pauses`` derives the pauses of
members from it, ``job`` runs both.
"""
