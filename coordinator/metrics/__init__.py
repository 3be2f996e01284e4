"""The metrics of the embedded coordinator, under Kafka's names.

The coordinator itself counts what it does (:mod:`~coordinator.metrics.activity`) and knows no clock; the broker around
it turns counts into rates over Kafka's windows (:mod:`~coordinator.metrics.sensors`) and shows them beside what it
reads from the groups (:mod:`~coordinator.metrics.families`).
"""
