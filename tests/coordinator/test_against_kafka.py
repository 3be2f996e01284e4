"""Kafka and the embedded coordinator play the same scenarios, and every step is the same.

Live, each scenario runs on Kafka first and then on the embedded coordinator, with the same times and ids. The
recordings are such runs on Kafka 4.3.1, kept so that the comparison needs no Kafka; EPOCHGATE_RECORD=1 makes them anew.
"""

import os
import uuid

import pytest

from tests.coordinator.core_backend import CoreBackend
from tests.coordinator.kafka_backend import KafkaBackend
from tests.coordinator.random_scenarios import RandomGroup
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.script import Script
from tests.coordinator.trace import Recording, Trace

RECORD = "EPOCHGATE_RECORD"


def played_by_kafka(name: str, bootstrap: str) -> Recording:
    backend = KafkaBackend(bootstrap)
    script = Script(backend, f"{name}-{uuid.uuid4().hex[:6]}")
    try:
        SCENARIOS[name](script)
    finally:
        backend.close()
    return Recording(
        os.environ.get("KAFKA_VERSION", "4.3.1"), script.prefix, backend.trace, script.transcript
    )


def played_by_us(name: str, prefix: str, trace: Trace) -> list[object]:
    script = Script(CoreBackend(trace), prefix)
    SCENARIOS[name](script)
    return script.transcript


@pytest.mark.kafka
@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_does_the_same(name: str, kafka_bootstrap: str):
    theirs = played_by_kafka(name, kafka_bootstrap)
    if os.environ.get(RECORD):
        theirs.write(name)

    ours = played_by_us(name, theirs.prefix, theirs.trace)

    assert ours == theirs.transcript


@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_did_the_same(name: str):
    theirs = Recording.read(name)

    ours = played_by_us(name, theirs.prefix, theirs.trace)

    assert ours == theirs.transcript


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(12))
def test_kafka_does_the_same_at_random(seed: int, kafka_bootstrap: str):
    backend = KafkaBackend(kafka_bootstrap)
    theirs = Script(backend, f"random-{uuid.uuid4().hex[:6]}")
    RandomGroup(theirs, seed).play()
    backend.close()

    ours = Script(CoreBackend(backend.trace), theirs.prefix)
    RandomGroup(ours, seed).play()

    assert ours.transcript == theirs.transcript
