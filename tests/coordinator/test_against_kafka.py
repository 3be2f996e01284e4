"""Kafka and the embedded coordinator play the same scenarios: every answer is the same, and every record of the log.

Live, each scenario runs on Kafka first and then on the embedded coordinator, with the same times and ids. The
recordings are such runs on Kafka 4.4.0, kept so that the comparison needs no Kafka; EPOCHGATE_RECORD=1 makes them anew.
"""

import os

import pytest

from tests.coordinator.comparison import check, compare
from tests.coordinator.conftest import BOOTSTRAP, OVERRIDES
from tests.coordinator.random_kinds import ALL_KINDS, player
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.trace import Recording
from tests.skips import not_here

RECORD = "EPOCHGATE_RECORD"
NEEDS_OVERRIDES = frozenset({"group_is_full", "classic_group_is_full"}) | {
    name for name in SCENARIOS if name.startswith("share_")
}


@pytest.mark.kafka
@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_does_the_same(name: str, kafka_bootstrap: str):
    if name in NEEDS_OVERRIDES and BOOTSTRAP in os.environ:
        not_here(f"needs a Kafka with {OVERRIDES}, which one that is named in {BOOTSTRAP} need not have")
    theirs = compare(SCENARIOS[name], name, kafka_bootstrap)

    if os.environ.get(RECORD):
        theirs.write(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_kafka_did_the_same(name: str):
    check(SCENARIOS[name], name, Recording.read(name))


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_kafka_does_the_same_at_random(kind: str, seed: int, kafka_bootstrap: str):
    if kind == "share" and BOOTSTRAP in os.environ:
        not_here(f"needs a Kafka with {OVERRIDES}, which one that is named in {BOOTSTRAP} need not have")
    compare(player(kind, seed), f"random-{kind}-{seed}", kafka_bootstrap)
