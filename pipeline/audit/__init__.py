"""Audits ownership from the journals of all replicas: partitions with two owners, and times without an owner.

``ownership`` goes through the events of a group (plain Python, no Spark), ``classes`` judges what was found,
``job`` brings the events in order and writes the tables.
"""
