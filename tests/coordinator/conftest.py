"""Fixtures of the coordinator's tests."""

import os
from collections.abc import Iterator

import pytest

from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster

BOOTSTRAP = "EPOCHGATE_TEST_BOOTSTRAP"


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """A real Kafka: the one that the environment names, or one of this test run's own."""
    given = os.environ.get(BOOTSTRAP)
    if given:
        yield given
        return
    cluster = Cluster(
        RUN / f"coordinator-{os.getpid()}", version=os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION)
    )
    try:
        cluster.save(owner_pid=os.getpid())
        cluster.start()
    except jars.KafkaUnavailableError as reason:
        cluster.remove()
        pytest.skip(f"no Kafka: {reason}")
    try:
        yield cluster.bootstrap
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()
