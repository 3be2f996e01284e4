"""Histories of a group that moves by steps, in one process and with a member log: the quota holds, and the move ends.

``python -m tests.simulation --steps [--fleet] --seeds 1000`` plays more of them.
"""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.plan import STEPS_CHANGE, make_plan
from tests.simulation.simulation import Result, run

ALONE, TOGETHER, CHUNK = 200, 100, 50


@cache
def results(first: int, *, fleet: bool) -> tuple[Result, ...]:
    return tuple(run(seed, make_plan(seed, fleet=fleet, steps=True)) for seed in range(first, first + CHUNK))


FAILED_ONCE = (
    1542,  # an older process with an instance id, in a group that passes it through, ended the newer one's membership
    5522,  # a wave did not end, because its step was larger than its group
    26223,  # a JoinGroup that nobody waited for put a classic member in the place of the translated one
    26811,  # a client joined beside itself, since what it had been timed out while it waited
    29681,  # a client converted the group again whose last translated member left at the same moment
    45279,  # likewise, while the LeaveGroup of the last one was on its way to the broker
    47057,  # a client joined beside what it had been: it gave up waiting twice, and another spoke for it
    1984,  # a group without members was taken for one that is held
    5471,  # a restarted process let a static client make the group a classic one too early
    52967,  # likewise, after another member had rejoined through it
    53833,  # the last translated member left while a client that joined had the broker asked which type the group has
    55599,  # a member counted as heard of when a late answer came; its session had ended
    59854,  # a membership lost in the middle of a JoinGroup was renewed in the rebalance that followed
    65587,  # somebody else was told in a client's name to go back, and later the client too, though it was to stay
    81977,  # an older JoinGroup that nobody waited for counted, because the newer connection had broken too
    24073,  # a check: an older JoinGroup reached the broker after a newer one of the same static client
    59279,  # a check: an older process rejoined under its id while a newer one with its instance id waited
    91743,  # the first heartbeat of a client crossed the epoch -1 of the last member, whose session had ended
    89939,  # a check: a process that stood still knew that by a deadline of a group in which strangers may act
    1677,  # a helper that came once more counted as the one that had left, and stayed for good
    2759,  # a classic member had the slot of its membership before it went back, and another had it too
    2317,  # a helper was forgotten with its connection, and its end at the broker made the group classic too early
    4025,  # a rebalance moved a member on in the middle of its conversion, and its client did not learn of it
    4748,  # likewise, and the partition that the member had been given had no owner
    32,  # a member that was moved for the second time had two slots
    1693,  # a check: that a group was classic before its move began counted as the end of the move
    3519,  # a check: the broker keeps the vote of a member that went back and was converted again
    1477,  # a commit that waited behind its client's JoinGroup, by which the client went back, was answered as unknown
    434,  # a helper that a crash had left behind timed out while members were behind the group epoch
    3755,  # likewise
    3078,  # a client that reads nothing held up the helper's heartbeat, and so the votes, for ever
    351,  # a check: a restarted process without a log takes members with an id of a native client's form for native
    970,  # likewise
    2899,  # likewise
    76462,  # a check: a client had two JoinGroups at the broker, and one was answered
)


FAILED_ONCE_IN_A_FLEET = (
    887,  # the last member of the new protocol left while a classic one lagged behind the group epoch
    1044,  # two members had one slot: the one that went back kept its own from before, with the end of its membership
)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_what_failed_once(seed: int) -> None:
    result = run(seed, make_plan(seed, steps=True))
    assert result.failure is None, f"{result.failure}\n{result.story}"


@pytest.mark.parametrize("seed", FAILED_ONCE_IN_A_FLEET)
def test_what_failed_once_in_a_fleet(seed: int) -> None:
    result = run(seed, make_plan(seed, fleet=True, steps=True))
    assert result.failure is None, f"{result.failure}\n{result.story}"


@pytest.mark.parametrize(
    ("first", "fleet"),
    [
        *((first, False) for first in range(1, ALONE + 1, CHUNK)),
        *((first, True) for first in range(1, TOGETHER + 1, CHUNK)),
    ],
)
def test_the_invariants_hold(first: int, fleet: bool) -> None:
    found = results(first, fleet=fleet)
    for result in found:
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"
    counts = sum((Counter(result.counts) for result in found), Counter[str]())
    assert counts["members translated by steps"] > CHUNK
    assert counts[STEPS_CHANGE] > CHUNK / 3
