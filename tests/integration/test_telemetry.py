"""Clients push their metrics to a broker that wants them (KIP-714), through the proxy."""

from pathlib import Path

import pytest
from support.broker import Kafka
from support.clients import JAVA
from support.entry import running_proxy
from support.waiting import eventually

from tools.java_client.compiled import BUILD, compile_once
from tools.kafka import jars
from tools.kafka.broker import LOG_SETTINGS

pytestmark = pytest.mark.kafka

RECEIVER = LOG_SETTINGS.with_name("TelemetryReceiver.java")
EVERY_MS = 100
"""The least that a broker takes."""


@pytest.fixture
def pushes(folder) -> Path:
    """Where the broker's plugin writes what clients push."""
    return folder / "pushed.txt"


@pytest.fixture
def kafka(own_kafka, pushes) -> Kafka:
    """A broker that wants the metrics of all clients."""
    classes = BUILD / f"telemetry-{jars.DEFAULT_VERSION}"
    compile_once(RECEIVER, classes, jars.classpath(jars.DEFAULT_VERSION))
    cluster = own_kafka(
        version=jars.DEFAULT_VERSION,
        plugins=[classes],
        overrides={"metric.reporters": RECEIVER.stem, "epochgate.telemetry.file": str(pushes)},
    )
    broker = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    broker.subscribe_to_client_metrics("all", {"metrics": "*", "interval.ms": str(EVERY_MS)})
    return broker


def test_a_client_behind_the_proxy_pushes_its_metrics(kafka, pushes, consumers, group, folder):
    topic = kafka.new_topic()
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        consumer = consumers.start(JAVA, proxy.bootstrap, group, topic, "range", name="pushing")
        consumer.wait_for("assigned")
        eventually(
            lambda: pushed_by(consumer.name, pushes), lambda pushed: len(pushed) > 1, what="it has pushed"
        )
        consumer.close()
        eventually(
            lambda: pushed_by(consumer.name, pushes)[-1][-1],
            lambda is_last: is_last == "true",
            what="it says which push is its last",
        )
    assert min(int(size) for _, size, *_ in pushed_by(consumer.name, pushes)) > 0


def pushed_by(client_id: str, pushes: Path) -> list[list[str]]:
    """What the broker's plugin has written of each push of this client; others, as the test's own admin, push too."""
    lines = pushes.read_text().splitlines() if pushes.exists() else []
    return [words for line in lines if (words := line.split()) and words[0] == client_id]
