"""The data pipeline on Spark: readiness, progress, audit and report of a migration.

Reads what brokers and the proxy's journal leave behind; it never talks to a running proxy, and knows nothing of
the other rooms but the codecs. What a step works out about groups and events lives in files without Spark
(``verdicts``, ``waves``, ``ownership``, ``pauses``); the ``job`` files beside them bring the data.
"""
