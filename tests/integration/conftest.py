"""Fixtures of the tests that need a real Kafka. README.md beside this file says how to run them."""

import contextlib
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `tools`, which is not installed

from support import find_broker
from support.broker import Kafka

from tools.kafka.cluster import Cluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """The broker that all tests share; each uses topics and groups of its own."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.any_broker())
        except find_broker.NoBrokerError as reason:
            pytest.skip(f"no Kafka: {reason}")
        yield broker


@pytest.fixture
def own_kafka() -> Iterator[Callable[..., Cluster]]:
    """Starts clusters that belong to one test, which may stop and kill their brokers."""
    with contextlib.ExitStack() as stack:

        def start(**options: object) -> Cluster:
            try:
                return stack.enter_context(find_broker.own_cluster(f"own-{uuid.uuid4().hex[:8]}", **options))
            except find_broker.NoBrokerError as reason:
                pytest.skip(f"no Kafka of its own: {reason}")

        yield start


@pytest.fixture
def group() -> str:
    """A group id that nobody else uses."""
    return f"g-{uuid.uuid4().hex[:8]}"
