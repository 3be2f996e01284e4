"""Proof that nothing was owned twice, and how long nobody owned it: from the journal of all replicas.

``ownership`` goes through the events of a group (plain Python, no Spark), ``classes`` judges what was found,
``job`` brings the events in order and writes the tables.
"""
