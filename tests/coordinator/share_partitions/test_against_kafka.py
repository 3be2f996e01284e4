"""A real Kafka and the cores play the same scripts: what is acquired, how often delivered, and every error is the same.

The recording has Kafka 4.4.0's answers, so that the comparison needs no Kafka; EPOCHGATE_RECORD=1 makes it anew.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.coordinator.share_partitions.play.broker_player import BrokerPlayer, Disturbed, SettingsRefused
from tests.coordinator.share_partitions.play.core_player import CorePlayer
from tests.coordinator.share_partitions.play.delete_records import delete_records
from tests.coordinator.share_partitions.play.random_scripts import RandomScript
from tests.coordinator.share_partitions.play.scripts import ACROSS_THE_START, BATCH_CUT, GAP_DELETED, SCRIPTS
from tests.coordinator.share_partitions.play.steps import Answer, Script
from tests.skips import not_here

RECORD = "EPOCHGATE_RECORD"
RECORDING = Path(__file__).with_name("kafka_4.4.0.json")
ATTEMPTS = 3
SEEDS = range(12)
FAILED = {"error": "UNKNOWN_SERVER_ERROR"}


def story(script: Script, answers: list[Answer]) -> list[str]:
    """Steps with their answers, one a line, for a difference that can be read."""
    return [f"{step} -> {json.dumps(answer)}" for step, answer in zip(script.steps, answers, strict=True)]


def on_kafka(script: Script, bootstrap: str) -> list[Answer]:
    for _ in range(ATTEMPTS):
        try:
            player = BrokerPlayer(bootstrap, script.settings, delete_records(bootstrap))
        except SettingsRefused as refused:
            not_here(refused)
        try:
            return player.play(script)
        except Disturbed:
            continue
        finally:
            player.close()
    return pytest.fail(f"disturbed {ATTEMPTS} times")


def on_cores(script: Script) -> list[Answer]:
    return CorePlayer(script.settings).play(script)


def acquired_of(answer: Answer) -> list[list[int]]:
    """What of partition 0 an answer has acquired."""
    acquired: list[list[int]] = answer.get("partitions", {}).get("0", {}).get("acquired", [])
    return acquired


@pytest.fixture(scope="module")
def record() -> Iterator[Callable[[str, list[Answer]], None]]:
    """Keeps Kafka's answers, if wanted."""
    made: dict[str, list[Answer]] = json.loads(RECORDING.read_text())
    yield made.__setitem__
    if os.environ.get(RECORD):
        RECORDING.write_text(
            "{\n"
            + ",\n".join(
                f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, made[name])) + "\n]"
                for name in sorted(made)
            )
            + "\n}\n"
        )


@pytest.mark.kafka
@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_does_the_same(name: str, kafka_bootstrap: str, record: Callable[[str, list[Answer]], None]):
    script = SCRIPTS[name]
    theirs = on_kafka(script, kafka_bootstrap)
    record(name, theirs)

    assert story(script, on_cores(script)) == story(script, theirs)


@pytest.mark.kafka
@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_does_the_same_at_random(seed: int, kafka_bootstrap: str):
    script = RandomScript(seed).script()

    theirs = on_kafka(script, kafka_bootstrap)
    mine = on_cores(script)
    comparable = next((n for n, answer in enumerate(theirs) if answer == FAILED), len(theirs))

    assert story(script, mine)[:comparable] == story(script, theirs)[:comparable]


@pytest.mark.kafka
def test_kafka_fails_at_an_acknowledgement_across_the_start_offset(kafka_bootstrap: str):
    """With nothing in flight it answers for the whole request, and whether other partitions were served is open."""
    assert on_kafka(ACROSS_THE_START, kafka_bootstrap)[4] == FAILED


def test_the_cores_refuse_an_acknowledgement_across_the_start_offset():
    answer = on_cores(ACROSS_THE_START)[4]

    assert answer == {"error": "NONE", "partitions": {"0": "INVALID_RECORD_STATE", "1": "NONE"}}


@pytest.mark.kafka
@pytest.mark.parametrize("script", [GAP_DELETED, BATCH_CUT], ids=["gap", "batch"])
def test_kafka_is_stuck_where_the_cores_go_on(script: Script, kafka_bootstrap: str):
    """It reads again and again where the log has nothing any more, and delivers nothing of this partition."""
    theirs = on_kafka(script, kafka_bootstrap)

    assert [acquired_of(answer) for answer in theirs[-4:]] == [[], [], [], []]


def test_the_cores_go_on_where_kafka_is_stuck_in_a_batch():
    rest, _, new = map(acquired_of, on_cores(BATCH_CUT)[-4:-1])

    assert (rest, new) == ([[5, 31, 1]], [[32, 32, 1]])


def test_the_cores_go_on_where_kafka_is_stuck():
    first_read, second_read, _, new = map(acquired_of, on_cores(GAP_DELETED)[-5:-1])

    assert (first_read, second_read, new) == ([], [[3, 4, 1]], [[10, 10, 1]])


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_did_the_same(name: str):
    recorded = json.loads(RECORDING.read_text())

    assert story(SCRIPTS[name], on_cores(SCRIPTS[name])) == story(SCRIPTS[name], recorded[name])
