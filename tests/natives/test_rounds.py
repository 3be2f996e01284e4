"""A few rounds; `make natives` runs more."""

import contextlib
from collections.abc import Iterator

import pytest
from support import ROOT, find_broker
from support.broker import Kafka
from support.native_group import Outcome

from tests.natives.rounds import Action, script
from tests.natives.run import WAYS, run
from tests.skips import Need, without

ROUNDS, SEED = 8, 395


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A real broker."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.any_broker())
        except find_broker.NoBrokerError as reason:
            without(Need.KAFKA, f"no Kafka: {reason}")
        yield broker


@pytest.mark.kafka
@pytest.mark.parametrize("way", WAYS)
def test_a_seed_comes_to_an_end_in_which_nobody_was_harmed(kafka, way):
    folder = ROOT / "build" / "natives" / "test" / way
    assert run(kafka, way, script(SEED, ROUNDS), folder) == Outcome(), (folder / "outcome.txt").read_text()


def test_a_script_follows_from_its_seed():
    assert script(5, 200) == script(5, 200) != script(6, 200)


@pytest.mark.parametrize("seed", range(20))
def test_a_script_has_everything_and_always_a_native_member(seed):
    steps = script(seed, 200)
    assert {step.action for step in steps} == set(Action)
    natives, living = set(), set()
    joined = 0
    for step in steps:
        if step.action in (Action.KILL, Action.LEAVE, Action.RESTART):
            living.remove(step.member)
            natives.discard(step.member)
        if step.action in (Action.JOIN, Action.RESTART):
            living.add(joined)
            natives |= {joined} if step.kind.native else set()
            joined += 1
        assert natives or joined == 0
        assert len(living) <= 6
