"""Client libraries' own test suites, run straight at Kafka and through Epochgate, and compared test by test.

``make judges`` runs them (``make judges ARGS=librdkafka``). Each suite is fetched from its registry by pinned version
and hash into build/judges; nothing of it is in this repository.
"""
