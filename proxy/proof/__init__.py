"""Verifies the journal while it is written: the rules of the audit, fed live (docs/how-to/live-proof.md).

:mod:`own_events` takes the events of this process, :mod:`journal_topic` those of all replicas from the journal's
topic; :mod:`live_proof` goes through them and says what is proven of each group.
"""
