"""Fixtures of the coordinator's tests."""

import os
from collections.abc import Iterator

import pytest

from tests.coordinator.core_backend import MAX_SIZE
from tests.skips import Need, without
from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster

BOOTSTRAP = "EPOCHGATE_TEST_BOOTSTRAP"

OVERRIDES = {
    "broker.rack": "rack-a",
    "group.consumer.max.size": str(MAX_SIZE),
    "group.max.size": str(MAX_SIZE),
    "group.share.max.size": str(MAX_SIZE),
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}
"""What the scenarios need beside the settings of all test clusters. A Kafka that is named must have them too."""


def own_cluster() -> Cluster:
    """A Kafka for the scenarios, not started yet."""
    version = os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION)
    return Cluster(RUN / f"coordinator-{os.getpid()}", version=version, overrides=OVERRIDES)


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """A real Kafka: the one that the environment names, or one of this test run's own."""
    given = os.environ.get(BOOTSTRAP)
    if given:
        yield given
        return
    cluster = own_cluster()
    try:
        cluster.save(owner_pid=os.getpid())
        cluster.start()
    except jars.KafkaUnavailableError as reason:
        cluster.remove()
        without(Need.KAFKA, f"no Kafka: {reason}")
    try:
        yield cluster.bootstrap
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()
