"""The state of a share partition after its records: golden cases, and Kafka's own class on random batches."""

import random
import subprocess
from pathlib import Path

import pytest
from support import find_broker

from pipeline.readiness.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE, combined, state_of
from protocol_codecs import Uuid
from protocol_codecs.records import (
    CoordinatorRecord,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
)
from tests.skips import Need, without
from tools.java_client import compiled
from tools.kafka import jars

TOPIC = Uuid(bytes(range(16)))
Plain = tuple[int, int, int, int]


def batch(first: int, last: int, state: int, count: int) -> ShareStateBatch:
    return ShareStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def snapshot(*batches: ShareStateBatch, epoch: int = 0, start: int = 0) -> CoordinatorRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=epoch,
        state_epoch=7,
        leader_epoch=1,
        start_offset=start,
        delivery_complete_count=0,
        create_timestamp=10,
        write_timestamp=1_000 + epoch,
        state_batches=batches,
    )
    return CoordinatorRecord(ShareSnapshotKey(group_id="g", topic_id=TOPIC, partition=0), value)


def update(
    *batches: ShareStateBatch, epoch: int = 0, start: int = -1, leader: int = -1, complete: int = 0
) -> CoordinatorRecord:
    value = ShareUpdateValue(
        snapshot_epoch=epoch,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=complete,
        state_batches=batches,
    )
    return CoordinatorRecord(ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=0), value)


TOMBSTONE = CoordinatorRecord(ShareSnapshotKey(group_id="g", topic_id=TOPIC, partition=0))


def plain(batches: tuple[ShareStateBatch, ...]) -> list[Plain]:
    return [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches]


def test_a_snapshot_is_the_whole_state():
    state = state_of(
        [snapshot(batch(0, 9, ARCHIVED, 5)), snapshot(batch(20, 29, AVAILABLE, 1), epoch=1, start=20)]
    )

    assert state is not None
    assert plain(state.batches) == [(20, 29, AVAILABLE, 1)]
    assert (state.state_epoch, state.start_offset, state.snapshot_time_ms, state.updates) == (7, 20, 1_001, 0)


def test_updates_of_a_snapshot_before_do_not_count():
    state = state_of([snapshot(), update(batch(0, 9, ACKNOWLEDGED, 1), start=5), snapshot(epoch=1)])

    assert state is not None
    assert (state.batches, state.start_offset, state.updates) == ((), 0, 0)


def test_updates_are_merged_over_the_snapshot():
    state = state_of(
        [
            snapshot(batch(0, 9, AVAILABLE, 1)),
            update(batch(3, 4, ACKNOWLEDGED, 2), complete=2),
            update(batch(5, 5, ARCHIVED, 5), leader=4, complete=3),
        ]
    )

    assert state is not None
    assert plain(state.batches) == [
        (0, 2, AVAILABLE, 1),
        (3, 4, ACKNOWLEDGED, 2),
        (5, 5, ARCHIVED, 5),
        (6, 9, AVAILABLE, 1),
    ]
    assert (state.leader_epoch, state.start_offset, state.delivery_complete_count, state.updates) == (
        4,
        0,
        3,
        2,
    )
    assert (state.count(AVAILABLE), state.count(ACKNOWLEDGED), state.count(ARCHIVED)) == (7, 2, 1)
    assert (state.count(AVAILABLE, at_least=1), state.count(AVAILABLE, at_least=2)) == (7, 0)


def test_the_start_offset_moves_and_cuts():
    state = state_of([snapshot(batch(0, 4, ACKNOWLEDGED, 1), batch(5, 9, AVAILABLE, 1)), update(start=7)])

    assert state is not None
    assert state.start_offset == 7
    assert plain(state.batches) == [(7, 9, AVAILABLE, 1)]


def test_a_tombstone_ends_it():
    assert state_of([snapshot(), update(), TOMBSTONE]) is None
    again = state_of([snapshot(), TOMBSTONE, snapshot(epoch=5, start=3)])
    assert again is not None
    assert again.start_offset == 3


def test_updates_without_their_snapshot_are_all_that_is_known():
    state = state_of([update(batch(4, 5, AVAILABLE, 1), start=4, leader=2)])

    assert state is not None
    assert (state.state_epoch, state.start_offset, state.leader_epoch, state.snapshot_time_ms) == (
        -1,
        4,
        2,
        None,
    )
    assert plain(state.batches) == [(4, 5, AVAILABLE, 1)]


@pytest.mark.parametrize(
    ("older", "newer", "merged"),
    [
        ([(0, 9, 0, 2)], [(0, 9, 0, 1)], [(0, 9, 0, 2)]),  # a lower count that comes later
        ([(0, 9, 0, 1)], [(0, 9, 2, 1)], [(0, 9, 2, 1)]),  # the same count: the higher state
        ([(0, 9, 4, 1)], [(0, 9, 2, 1)], [(0, 9, 4, 1)]),
        ([(0, 4, 0, 1)], [(5, 9, 0, 1)], [(0, 9, 0, 1)]),  # neighbours
        ([(0, 4, 0, 1)], [(6, 9, 0, 1)], [(0, 4, 0, 1), (6, 9, 0, 1)]),  # a gap
        ([(0, 9, 0, 1)], [(9, 0, 2, 1)], [(0, 9, 0, 1)]),  # ends before it begins
    ],
)
def test_where_batches_overlap(older: list[Plain], newer: list[Plain], merged: list[Plain]):
    assert plain(combined([batch(*one) for one in (*older, *newer)], 0)) == merged


def random_batches(dice: random.Random) -> list[Plain]:
    found = []
    for _ in range(dice.randrange(6)):
        first = dice.randrange(30)
        found.append((first, first + dice.randrange(8), dice.choice([0, 2, 3, 4]), dice.randrange(1, 5)))
    return found


@pytest.mark.kafka
def test_kafka_merges_the_same(tmp_path: Path):
    dice = random.Random(932)  # noqa: S311 - the same batches each time
    cases = [
        (dice.choice([-1, 0, 3, 12, 25]), random_batches(dice), random_batches(dice)) for _ in range(3_000)
    ]
    try:
        version = find_broker.wanted_version()
        compiled.ensure_compiled(version, compiled.SHARE_BATCHES)
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")
    command = compiled.command(version, tmp_path / "log", compiled.SHARE_BATCHES)
    lines = "".join(f"{start}|{text(older)}|{text(newer)}\n" for start, older, newer in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr

    ours = [
        text(plain(combined([batch(*b) for b in (*older, *newer)], start))) for start, older, newer in cases
    ]

    assert ours == done.stdout.splitlines()


def text(batches: list[Plain]) -> str:
    return ";".join(",".join(map(str, one)) for one in batches)
