"""`epochgate verify`: reads a journal once, from files or a topic, and issues certificates. It needs no Spark.

The rules are in :mod:`audit`; here is where their lines come from, and how a report looks.
"""
