"""Fixtures of the tests that need a real Kafka. README.md beside this file says how to run them."""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import ROOT, find_broker
from support.broker import Kafka
from support.consumers import Consumers
from support.entry import Entries, Entry
from support.native_group import NativeGroup
from support.seen import UNKNOWN, Seen
from support.story import Case

from tests.skips import Need, without
from tools import haproxy
from tools.kafka.cluster import Cluster

LOGS = ROOT / "build" / "integration"


def pytest_configure(config: pytest.Config) -> None:
    """Register what only these tests use."""
    config.addinivalue_line("markers", "scenario(name): a line of the README's table (build/scenarios.json)")
    config.pluginmanager.register(Seen(), "seen")


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Kafka]:
    """The broker that all tests share; each uses topics and groups of its own."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.any_broker())
        except find_broker.NoBrokerError as reason:
            without(Need.KAFKA, f"no Kafka: {reason}")
        pytestconfig.pluginmanager.get_plugin("seen").kafka_version = broker.version
        yield broker


def _own_kafka(pytestconfig: pytest.Config) -> Iterator[Callable[..., Cluster]]:
    seen = pytestconfig.pluginmanager.get_plugin("seen")
    with contextlib.ExitStack() as stack:

        def start(**options: object) -> Cluster:
            try:
                cluster = stack.enter_context(
                    find_broker.own_cluster(f"own-{uuid.uuid4().hex[:8]}", **options)
                )
            except find_broker.NoBrokerError as reason:
                without(Need.KAFKA, f"no Kafka of its own: {reason}")
            if seen.kafka_version == UNKNOWN:
                seen.kafka_version = cluster.version
            return cluster

        yield start


@pytest.fixture
def own_kafka(pytestconfig: pytest.Config) -> Iterator[Callable[..., Cluster]]:
    """Starts clusters that belong to one test, which may stop and kill their brokers."""
    yield from _own_kafka(pytestconfig)


@pytest.fixture(scope="module")
def own_kafka_of_module(pytestconfig: pytest.Config) -> Iterator[Callable[..., Cluster]]:
    """The same for all tests of a module together."""
    yield from _own_kafka(pytestconfig)


@pytest.fixture(scope="session")
def entries(kafka: Kafka, empty_folder: Callable[[str], Path]) -> Iterator[Entries]:
    """`entries[mode]` is where clients connect: `direct`, or the proxy in `translate` or `observe`."""
    with contextlib.ExitStack() as stack:
        process = os.environ.get("PYTEST_XDIST_WORKER", "")
        yield Entries(kafka, empty_folder(f"proxy{process}"), stack)


@pytest.fixture(scope="module")
def entry(case: Case, entries: Entries) -> Entry:
    """The entry of this case."""
    return entries[case.entry]


@pytest.fixture
def consumers(folder: Path) -> Iterator[Consumers]:
    """Starts consumers as processes; their logs stay in build/integration/<test>."""
    started = Consumers(folder)
    yield started
    started.end()


@pytest.fixture
def native_group(kafka: Kafka, entries: Entries, consumers: Consumers, mode: str) -> NativeGroup:
    """A group of native and classic members at the entry of this mode."""
    return NativeGroup(kafka, entries[mode], consumers)


@pytest.fixture
def haproxy_installed() -> None:
    """Skips where there is no HAProxy, which `.ci/run` installs."""
    if haproxy.program() is None:
        without(Need.CHART, "haproxy is not installed")


@pytest.fixture
def folder(request: pytest.FixtureRequest, empty_folder: Callable[[str], Path]) -> Path:
    """An empty folder for the logs of this test."""
    return empty_folder(request.node.name)


@pytest.fixture(scope="session")
def empty_folder() -> Callable[[str], Path]:
    """Makes empty folders under build/integration, which stay there to be read."""

    def make(name: str) -> Path:
        folder = LOGS / re.sub(r"[^\w.-]+", "_", name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    return make


@pytest.fixture
def group() -> str:
    """A group id that nobody else uses."""
    return f"g-{uuid.uuid4().hex[:8]}"
