"""The data pipeline on Spark: readiness, progress, audit and report of a migration.

Reads data that brokers and the proxy's journal leave behind; it never talks to a running proxy, and imports nothing of
the other packages but the codecs. The logic about groups and events lives in files without Spark (``verdicts``,
``waves``, ``ownership``, ``pauses``); the ``job`` files beside them read and write the data.
"""
