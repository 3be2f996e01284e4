"""When the demo passes, and what it says when it does not."""

import msgspec
import pytest
from rich.console import Console

from proxy.demo.kafka import BrokerView
from proxy.demo.measures import Overlap, StepCost
from proxy.demo.summary import summary
from proxy.demo.verdict import GroupResult, Result, problems

COST = StepCost(bystanders=3, stopped=3, stopped_s=1.25, partitions=8, interrupted=8, unread_s=4.5)


@pytest.fixture
def good() -> Result:
    groups = (
        GroupResult(
            title=title,
            expected_type=type_,
            broker=BrokerView(type=type_, state="stable", members=2),
            distinct=100,
            duplicates=0,
            missing=(),
            overlaps=(),
            costs=(COST,),
        )
        for title, type_ in (("Classic", "classic"), ("Epochgate", "consumer"))
    )
    return Result(produced=100, steps=("join",), groups=tuple(groups))


def but(result: Result, **changes: object) -> Result:
    """The same, except for the group through the proxy."""
    classic, translated = result.groups
    return msgspec.structs.replace(result, groups=(classic, msgspec.structs.replace(translated, **changes)))


def printed(result: Result) -> str:
    console = Console(width=100, record=True, quiet=False)
    with console.capture() as capture:
        for renderable in summary(result):
            console.print(renderable)
    return capture.get()


def test_all_read_and_nothing_held_twice_passes(good):
    assert problems(good) == []
    assert "PASSED: both groups read all 100 records" in printed(good)


def test_records_read_again_are_no_problem(good):
    assert problems(but(good, duplicates=7)) == []


def test_a_record_that_nobody_read_fails(good):
    assert problems(but(good, missing=(4, 5, 9))) == ["Epochgate: 3 records were never read: 4-5, 9"]


def test_a_partition_held_twice_fails(good):
    result = but(good, overlaps=(Overlap(3, ("epochgate-1", "epochgate-2"), 0, 0.25),))
    assert problems(result) == ["Epochgate: partition 3 was held by epochgate-1 and epochgate-2 for 0.250 s"]
    assert "FAILED" in printed(result)


def test_a_group_that_the_broker_takes_for_a_classic_one_fails(good):
    result = but(good, broker=BrokerView(type="classic", state="stable", members=2))
    (problem,) = problems(result)
    assert "of type classic, not consumer" in problem


def test_nothing_produced_fails(good):
    assert problems(msgspec.structs.replace(good, produced=0)) == [
        "no record was produced, so the demo shows nothing"
    ]


def test_the_table_has_a_line_for_each_step_and_group_and_one_for_all(good):
    lines = [line for line in printed(good).splitlines() if "3 of 3" in line]
    assert [line.split()[1] for line in lines] == ["join", "│", "all", "│"]
    assert all("1.25" in line and "4.50" in line for line in lines)
