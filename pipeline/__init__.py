"""The data pipeline on Spark: readiness, progress, audit and report of a migration.

Reads what brokers and the proxy's journal leave behind; it never talks to a running proxy.
"""
