"""Runs a real Apache Kafka for tests and for trying things out, from Maven's jars, on loopback only.

It uses the standard library only, so that `python3 -m tools.kafka up` runs before any virtual environment exists.
"""
