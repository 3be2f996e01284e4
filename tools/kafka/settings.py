"""Broker settings for tests: few resources, quick rebalances, and short timeouts allowed."""

from collections.abc import Mapping

CONSUMER_SESSION_TIMEOUT_MS = 6_000
CONSUMER_HEARTBEAT_INTERVAL_MS = 500

GROUP_DEFAULTS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.min.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.streams.session.timeout.ms": "45000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.min.session.timeout.ms": "45000",
    "group.streams.min.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "3000",
}
"""Kafka's own values of what `for_tests` shortens: overrides for a broker whose groups behave as a stock one's."""


def for_tests(brokers: int) -> dict[str, str]:
    """Return the settings of every broker of a test cluster of this size; callers may override them.

    `group.consumer.assignment.interval.ms` and everything else that decides how a group behaves keep Kafka's defaults.
    Only durations and sizes differ.
    """
    replicas = str(min(brokers, 3))
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": "1",
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        # a preview in 4.1, which has to be switched on; newer brokers have no such setting
        "group.share.enable": "true",
        # classic groups
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # groups of the new protocol: the broker decides these timeouts, clients cannot
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_TIMEOUT_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_INTERVAL_MS),
        # streams groups, the same
        "group.streams.min.session.timeout.ms": "1000",
        "group.streams.session.timeout.ms": str(CONSUMER_SESSION_TIMEOUT_MS),
        "group.streams.min.heartbeat.interval.ms": "100",
        "group.streams.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_INTERVAL_MS),
        "group.streams.initial.rebalance.delay.ms": "0",
        # what a killed producer has begun is aborted soon after its own timeout
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        # footprint
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "log.index.size.max.bytes": "1048576",
        "log.cleaner.dedupe.buffer.size": "4194304",
    }


def heap_options() -> list[str]:
    """Return the JVM options of a broker that shares two cores with everything else."""
    return ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


def properties(values: Mapping[str, str]) -> str:
    """Return `values` as the text of a .properties file."""
    return "".join(f"{key}={value}\n" for key, value in values.items())
