"""The simple assignor of share groups: KIP-932's table, and Kafka's own class.

``kafka_4.4.0.json`` has a digest of what Kafka's class answered to each case of each seed, so that the comparison needs
no Java; EPOCHGATE_RECORD=1 makes it anew. A live run shows Kafka's answer where it differs.
"""

import json
import os
import subprocess
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from coordinator.assignors import AssignmentImpossible, GroupSpec, MemberSpec
from coordinator.assignors.simple import assign_shared
from coordinator.partitions import Partitions
from protocol_codecs import Uuid, uuid_to_text
from tests.coordinator.assignors.cases import Case, Group, spec_of
from tests.skips import Need, without
from tools.kafka import jars

HERE = Path(__file__).parent
RECORDED = HERE / "kafka_4.4.0.json"
SEEDS = range(40)
STEPS = 12
FAILURE = "NoSuchElementException"
"""Kafka's class fails where shares are left over that no member may take."""


def answer(case: Case) -> Any:
    """Our assignment, as SimpleOracle.java prints Kafka's."""
    try:
        assignment = assign_shared(spec_of(case))
    except AssignmentImpossible:
        return FAILURE
    return {
        member: {uuid_to_text(topic): sorted(numbers) for topic, numbers in partitions.items()}
        for member, partitions in assignment.items()
    }


def digest(content: Any) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def play(seed: int, check: Callable[[Case, Any], None]) -> None:
    """Let a group change, and check each assignment."""
    group = Group(seed)
    for _ in range(STEPS):
        case = group.case()
        ours = answer(case)
        check(case, ours)
        if ours == FAILURE:
            return
        group.assign(ours)
        group.change()


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_s_class_assigned_the_same(seed: int):
    digests: list[str] = []

    play(seed, lambda _case, ours: digests.append(digest(ours)))

    assert digests == json.loads(RECORDED.read_text())[seed]


@pytest.mark.kafka
def test_kafka_s_class_assigns_the_same():
    try:
        command = [jars.check_java(), "-cp", f"{jars.ensure_jars()}/*", str(HERE / "SimpleOracle.java")]
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")
    digests: list[list[str]] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as oracle:
        question, answers = oracle.stdin, oracle.stdout
        assert question is not None
        assert answers is not None

        def check(case: Case, ours: Any) -> None:
            question.write(json.dumps(case) + "\n")
            question.flush()
            theirs = json.loads(answers.readline())
            assert ours == theirs, case
            digests[-1].append(digest(theirs))

        for seed in SEEDS:
            digests.append([])
            play(seed, check)
        question.close()
    if os.environ.get("EPOCHGATE_RECORD"):
        RECORDED.write_text(json.dumps(digests, indent=0) + "\n")


T1, T2 = Uuid(b"1" * 16), Uuid(b"2" * 16)
TABLE: list[tuple[str, dict[str, tuple[Uuid, ...]], dict[Uuid, int], dict[str, list[tuple[int, int]]]]] = [
    ("M1 subscribes to T1", {"M1": (T1,)}, {T1: 1}, {"M1": [(1, 0)]}),
    ("M2 joins", {"M1": (T1,), "M2": (T1,)}, {T1: 1}, {"M1": [(1, 0)], "M2": [(1, 0)]}),
    (
        "T1 gets 3 partitions more",
        {"M1": (T1,), "M2": (T1,)},
        {T1: 4},
        {"M1": [(1, 0), (1, 2)], "M2": [(1, 1), (1, 3)]},
    ),
    (
        "M3 joins",
        dict.fromkeys(("M1", "M2", "M3"), (T1,)),
        {T1: 4},
        {"M1": [(1, 0)], "M2": [(1, 1), (1, 3)], "M3": [(1, 2)]},
    ),
    (
        "M4 joins",
        dict.fromkeys(("M1", "M2", "M3", "M4"), (T1,)),
        {T1: 4},
        {"M1": [(1, 0)], "M2": [(1, 1)], "M3": [(1, 2)], "M4": [(1, 3)]},
    ),
    (
        "M5 to M8 join",
        {f"M{n}": (T1,) for n in range(1, 9)},
        {T1: 4},
        {f"M{n}": [(1, (n - 1) % 4)] for n in range(1, 9)},
    ),
    (
        "M1 subscribes to T2 too",
        {"M1": (T1, T2), **{f"M{n}": (T1,) for n in range(2, 9)}},
        {T1: 4, T2: 2},
        {
            "M1": [(1, 0), (2, 0), (2, 1)],
            **{f"M{n}": [(1, (n - 1) % 4)] for n in range(2, 9)},
        },
    ),
    ("all leave but M2", {"M2": (T1,)}, {T1: 4}, {"M2": [(1, 0), (1, 1), (1, 2), (1, 3)]}),
]
"""KIP-932's table: subscriptions, partitions, and the assignment; a partition is (topic, number)."""

Shape = tuple[list[int], list[int], int]


def shape(before: dict[str, set[tuple[int, int]]], after: dict[str, set[tuple[int, int]]]) -> Shape:
    """What is left of an assignment without names: how many each has, how many share each, and how much stayed."""
    sharers: dict[tuple[int, int], int] = {}
    for partitions in after.values():
        for partition in partitions:
            sharers[partition] = sharers.get(partition, 0) + 1
    stayed = sum(len(before.get(member, set()) & partitions) for member, partitions in after.items())
    return sorted(map(len, after.values())), sorted(sharers.values()), stayed


def test_the_table_of_the_kip():
    ours: dict[str, set[tuple[int, int]]] = {}
    theirs: dict[str, set[tuple[int, int]]] = {}
    targets: dict[str, Partitions] = {}
    for step, subscriptions, counts, expected in TABLE:
        spec = GroupSpec(
            members={
                member: MemberSpec(None, topics, len(topics), targets.get(member, {}))
                for member, topics in subscriptions.items()
            },
            is_homogeneous=len(set(subscriptions.values())) == 1,
            partition_counts=counts,
            assigned_to={},
        )
        targets = assign_shared(spec)

        mine = {
            member: {(int(topic[:1]), n) for topic, numbers in targets[member].items() for n in numbers}
            for member in targets
        }
        table = {member: set(partitions) for member, partitions in expected.items()}
        assert shape(ours, mine) == shape(theirs, table), step
        ours, theirs = mine, table
