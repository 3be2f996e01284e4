"""Kafka and the embedded coordinator play the same scenarios, and every step is the same.

Live, each scenario runs on Kafka first and then on the embedded coordinator, with the same times and ids. The
recordings are such runs on Kafka 4.3.1, kept so that the comparison needs no Kafka; EPOCHGATE_RECORD=1 makes them anew.
"""

import os
import uuid
from collections.abc import Callable

import pytest

from tests.coordinator.core_backend import CoreBackend
from tests.coordinator.kafka_backend import KafkaBackend
from tests.coordinator.random_scenarios import RandomGroup
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.script import Script
from tests.coordinator.trace import Recording

RECORD = "EPOCHGATE_RECORD"
ATTEMPTS = 8
Play = Callable[[Script], None]


def played_by_kafka(play: Play, name: str, bootstrap: str) -> tuple[Recording, bool]:
    """Kafka's part, and whether the machine was too slow in between for it to be comparable."""
    prefix = f"{name}-{uuid.uuid4().hex[:6]}"
    backend = KafkaBackend(bootstrap, f"{prefix}-group")
    script = Script(backend, prefix)
    try:
        play(script)
    finally:
        backend.close()
    version = os.environ.get("KAFKA_VERSION", "4.3.1")
    return Recording(version, prefix, backend.trace, script.transcript), backend.was_disturbed


def played_by_us(play: Play, theirs: Recording) -> list[object]:
    """The same with the times and ids of Kafka's run."""
    script = Script(CoreBackend(theirs.trace), theirs.prefix)
    play(script)
    return script.transcript


def compare(play: Play, name: str, bootstrap: str) -> Recording:
    """Play on both. A difference is played again if the machine paused meanwhile: timers fired in Kafka only."""
    for attempt in range(ATTEMPTS):
        theirs, was_disturbed = played_by_kafka(play, name, bootstrap)
        try:
            assert played_by_us(play, theirs) == theirs.transcript
        except AssertionError:
            if not was_disturbed or attempt == ATTEMPTS - 1:
                raise
        else:
            return theirs
    raise AssertionError("unreachable")


@pytest.mark.kafka
@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_does_the_same(name: str, kafka_bootstrap: str):
    theirs = compare(SCENARIOS[name], name, kafka_bootstrap)

    if os.environ.get(RECORD):
        theirs.write(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_did_the_same(name: str):
    theirs = Recording.read(name)

    assert played_by_us(SCENARIOS[name], theirs) == theirs.transcript


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(12))
def test_kafka_does_the_same_at_random(seed: int, kafka_bootstrap: str):
    compare(lambda script: RandomGroup(script, seed).play(), f"random-{seed}", kafka_bootstrap)
