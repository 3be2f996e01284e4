"""The soak under fire (`make soak FIRE=1 MINUTES=30`) in short, and that it finds each fault."""

import pytest

from benchmarks import soak_under_fire
from benchmarks.attacks.lying_hook import LIES
from benchmarks.soak_under_fire import report_of
from proxy.control.hook_caller import _veto_in

FLAT = [{"memory_mib": 90.0, "descriptors": 50.0, "tasks": 80.0}] * 2
GROWN = [FLAT[0], {**FLAT[0], "memory_mib": 97.0}]
FIRE = {"turns": [{"what": "WRITE", "healed": True, "after_s": 5.0}], "broken": []}
FOUND = {
    "rejoins through": [[0, 1], [0, 0]],
    "rejoins straight": [1, 0],
    "replicas alive": True,
    "moves that a hook was asked about": ["before step 1 of 2 (1); the hook does not let it begin", ""],
    "hook asked": 3,
    "records ignored": [7.0, 7.0],
    "unanswered calls": 0,
    "left over at the replicas": [0.0, 0.0],
}


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_replicas_among_hostile_peers():
    report = soak_under_fire.soak(minutes=0.5, kinds=("garbage", "hook", "admin", "rights"), settles_s=25.0)
    assert set(report["faults"]) <= {"a replica has grown"}, report  # half a minute is no measure of that


def test_nothing_is_a_fault_that_straight_at_kafka_happens_too():
    assert report_of(1.0, [FLAT, FLAT], FIRE, FOUND)["faults"] == []


@pytest.mark.parametrize(
    ("fault", "rests", "fire", "found"),
    [
        ("a replica has grown", [FLAT, GROWN], {}, {}),
        ("a consumer rejoined", [FLAT], {}, {"rejoins through": [[0], [2]]}),
        ("a replica has ended", [FLAT], {}, {"replicas alive": False}),
        (
            "a group moved though its hook did not agree",
            [FLAT],
            {},
            {"moves that a hook was asked about": ["step 1 of 2 (1), settled"]},
        ),
        ("the hook was never asked", [FLAT], {}, {"hook asked": 0}),
        ("no garbage was read", [FLAT], {}, {"records ignored": [7.0, 0.0]}),
        ("a call was not answered", [FLAT], {}, {"unanswered calls": 1}),
        ("something is left over", [FLAT], {}, {"left over at the replicas": [0.0, 1.0]}),
        ("a turn was not healed", [FLAT], {"turns": [{"what": "READ", "healed": False}]}, {}),
        ("nothing was changed", [FLAT], {"turns": []}, {}),
        ("the fire went out", [FLAT], {"broken": ["_write_garbage: KafkaException()"]}, {}),
    ],
)
def test_each_fault_is_found(fault, rests, fire, found):
    assert report_of(1.0, rests, FIRE | fire, FOUND | found)["faults"] == [fault]


@pytest.mark.parametrize("lie", LIES)
def test_no_lie_of_the_hook_agrees(lie):
    assert _veto_in(LIES[lie]) is not None
