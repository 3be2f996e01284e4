"""The state of share partitions: fencing, merging, snapshots, and a restart at every record."""

import random

import pytest

from coordinator.errors import RequestRefused
from coordinator.log import MemoryLog
from coordinator.share_state import SharePartition, ShareState
from coordinator.share_state.batches import merged
from protocol_codecs import ErrorCode, Uuid
from protocol_codecs.records import SHARE_STATE, ShareSnapshotKey, ShareStateBatch, ShareUpdateKey

P0, P1 = (SharePartition("g", Uuid(b"t" * 16), number) for number in range(2))
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batch(first: int, last: int, state: int = AVAILABLE, count: int = 1) -> ShareStateBatch:
    return ShareStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def write(
    state: ShareState, key: SharePartition = P0, *batches: ShareStateBatch, start: int = 0, complete: int = 0
) -> None:
    state.write(
        key,
        state_epoch=5,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=complete,
        batches=batches,
        now_ms=9,
    )


def initialized(log: MemoryLog | None = None, updates: int = 500) -> ShareState:
    state = ShareState(log, updates_per_snapshot=updates)
    assert state.initialize({P0: 0, P1: -1}, 5, 1)
    return state


def test_a_new_state_begins_where_it_is_told_to():
    state = initialized()

    known, unknown = state.summary(P0), state.summary(P1)
    assert known is not None
    assert unknown is not None
    assert (known.start_offset, known.delivery_complete_count, known.state_epoch) == (0, 0, 5)
    assert (unknown.start_offset, unknown.delivery_complete_count) == (-1, -1)


def test_an_older_group_epoch_initializes_nothing():
    state = initialized()

    assert not state.initialize({P0: 7, SharePartition("g", P0.topic_id, 2): 0}, 4, 2)

    assert state.partitions[P0].start_offset == 0
    assert len(state.partitions) == 3


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"key": SharePartition("g", P0.topic_id, 9)}, ErrorCode.INVALID_REQUEST),
        ({"state_epoch": 4}, ErrorCode.FENCED_STATE_EPOCH),
        ({"leader_epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_old_writers_are_fenced(changes: dict[str, object], error: ErrorCode):
    state = initialized()
    state.read(P0, 3, 2)
    fields = {"key": P0, "state_epoch": 5, "leader_epoch": 3, "start_offset": 0, "delivery_complete_count": 0}

    with pytest.raises(RequestRefused) as refused:
        state.write(**fields | changes, batches=(), now_ms=3)

    assert refused.value.code is error


def test_the_start_offset_never_moves_back():
    state = initialized()
    write(state, P0, batch(0, 9, ACKNOWLEDGED), start=10, complete=3)

    write(state, P0, batch(10, 12), start=4, complete=9)

    assert state.partitions[P0].start_offset == 10
    assert state.partitions[P0].delivery_complete_count == 3
    assert state.partitions[P0].batches == (batch(10, 12),)


def test_a_snapshot_comes_after_so_many_updates():
    log = MemoryLog(codec=SHARE_STATE)
    state = initialized(log, updates=3)

    for number in range(8):
        write(state, P0, batch(number, number, ACKNOWLEDGED))

    kinds = [type(record.key) for change in log.read() for record in change.records][2:]
    assert kinds == [ShareUpdateKey] * 3 + [ShareSnapshotKey] + [ShareUpdateKey] * 3 + [ShareSnapshotKey]
    assert state.partitions[P0].snapshot_epoch == 2
    assert state.partitions[P0].batches == (batch(0, 7, ACKNOWLEDGED),)


def test_every_boundary_of_a_log_gives_the_same_state():
    log = MemoryLog(codec=SHARE_STATE)
    state = ShareState(log, updates_per_snapshot=4)
    chance = random.Random(7)  # noqa: S311  the same steps in every run
    states = []
    for step in range(120):
        first = chance.randrange(40)
        kind = chance.choice([AVAILABLE, ACKNOWLEDGED, ARCHIVED])
        key = chance.choice([P0, P1])
        if key not in state.partitions or chance.random() < 0.05:
            state.initialize({key: chance.choice([-1, 0])}, 5, step)
        elif chance.random() < 0.05:
            state.delete([key], step)
        else:
            write(state, key, batch(first, first + 5, kind, chance.randint(1, 3)), start=step // 10)
        states += [dict(state.partitions)] * (len(log.batches) - len(states))

    for end, before in enumerate(states, start=1):
        again = ShareState(MemoryLog(log.batches[:end], SHARE_STATE), updates_per_snapshot=4)
        again.load()
        assert again.partitions == before, end


@pytest.mark.parametrize("seed", range(200))
def test_merged_batches_say_of_each_offset_what_wins(seed: int):
    chance = random.Random(seed)  # noqa: S311  the same steps in every run
    batches = [
        batch(first, first + chance.randrange(6), chance.choice([0, 2, 4]), chance.randint(1, 3))
        for first in (chance.randrange(20) for _ in range(chance.randrange(8)))
    ]
    start = chance.choice([-1, 0, 5, 12])

    result = merged(batches, start)

    offsets = {n for b in batches for n in range(b.first_offset, b.last_offset + 1) if n >= start}
    expected = {
        n: max((b.delivery_count, b.delivery_state) for b in batches if b.first_offset <= n <= b.last_offset)
        for n in offsets
    }
    found = {
        n: (b.delivery_count, b.delivery_state)
        for b in result
        for n in range(b.first_offset, b.last_offset + 1)
    }
    assert found == expected
    assert sum(b.last_offset - b.first_offset + 1 for b in result) == len(found)
