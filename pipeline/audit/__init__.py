"""Audits ownership from the journals of all replicas: finds partitions with two owners, and times without an owner.

``ownership`` replays the events of a group (plain Python, no Spark), ``classes`` classifies the findings, ``job`` sorts
the events and writes the tables.
"""
