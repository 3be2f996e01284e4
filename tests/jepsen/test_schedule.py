"""The same seed gives the same faults, and every kind occurs early enough for a short run."""

import itertools

from tests.jepsen.roster import SEATS
from tests.jepsen.schedule import FLEET_WEIGHTS, REPLICAS, WEIGHTS, Fault, schedule

NAMES = [seat.name for seat in SEATS]


def test_a_seed_gives_one_schedule():
    assert list(schedule(7, 600, NAMES)) == list(schedule(7, 600, NAMES))
    assert list(schedule(7, 600, NAMES)) != list(schedule(8, 600, NAMES))


def test_two_minutes_have_every_kind_of_fault():
    assert set(FLEET_WEIGHTS) == set(Fault)
    for seed, weights in itertools.product(range(50), (WEIGHTS, FLEET_WEIGHTS)):
        steps = list(schedule(seed, 120, NAMES, proxies=REPLICAS, weights=weights))
        assert {step.fault for step in steps} == set(weights)
        assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
        assert steps[-1].at_s < 120


def test_twelve_consumers_of_four_libraries_two_static():
    assert len(SEATS) == 12
    assert len({seat.kind.name for seat in SEATS}) == 4
    assert len([seat for seat in SEATS if seat.instance_id]) == 2
    assert {seat.assignor == "cooperative-sticky" for seat in SEATS} == {True, False}
