"""When the demo passes, and what it says when it does not."""

import msgspec
import pytest
from rich.console import Console

from proxy.demo.commands import Certificate, Owners
from proxy.demo.measures import Overlap, StepCost
from proxy.demo.summary import summary
from proxy.demo.verdict import GroupResult, Result, problems

COST = StepCost(
    bystanders=3, stopped=3, stopped_s=1.25, callbacks=6, unread_s=4.5, longest_s=2.75, read_again=0
)
UNNOTICED = StepCost(bystanders=3, stopped=0, stopped_s=0, callbacks=0, unread_s=0, longest_s=0, read_again=0)


PROVEN = Certificate(group="g", verdict="proven", events=200, members={"classic": 4}, owners=Owners({}))


@pytest.fixture
def good() -> Result:
    groups = (
        GroupResult(
            title=title,
            types=("classic", type_, type_, "classic"),
            distinct=100,
            duplicates=0,
            missing=(),
            overlaps=(),
            costs=(COST, UNNOTICED, COST, COST),
        )
        for title, type_ in (("Classic", "classic"), ("Epochgate", "consumer"))
    )
    return Result(
        produced=100,
        steps=("join", "move", "kill", "back"),
        groups=tuple(groups),
        session_s=6,
        certificate=PROVEN,
    )


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


def test_the_certificate_is_printed(good):
    line = "epochgate verify: g is proven: 0 times two owners at once, by 200 events of 4 members."
    assert line in printed(good)


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ("no certificate: no such folder", "no certificate: no such folder"),
        (
            msgspec.structs.replace(PROVEN, verdict="unproven", why=("1 event lost",)),
            "g is unproven: 0 times two owners at once, by 200 events of 4 members; 1 event lost",
        ),
        (
            msgspec.structs.replace(PROVEN, verdict="violated", owners=Owners({"violation": 2})),
            "g is violated: 2 times two owners at once, by 200 events of 4 members",
        ),
    ],
)
def test_a_group_that_is_not_proven_fails(good, certificate, words):
    result = msgspec.structs.replace(good, certificate=certificate)
    assert problems(result) == [f"epochgate verify: {words}"]
    assert "FAILED" in printed(result)


def test_records_read_again_are_no_problem(good):
    assert problems(but(good, duplicates=7)) == []


def test_a_record_that_nobody_read_fails(good):
    assert problems(but(good, missing=(4, 5, 9))) == ["Epochgate: 3 records were never read: 4-5, 9"]


def test_a_partition_held_twice_fails(good):
    result = but(good, overlaps=(Overlap(3, ("epochgate-1", "epochgate-2"), 0, 0.25),))
    assert problems(result) == ["Epochgate: partition 3 was held by epochgate-1 and epochgate-2 for 0.250 s"]
    assert "FAILED" in printed(result)


@pytest.mark.parametrize(
    ("noticed", "words"),
    [
        ({"callbacks": 2}, "2 callbacks, 0 records read twice, longest time without an owner 0.00 s"),
        ({"read_again": 9}, "0 callbacks, 9 records read twice, longest time without an owner 0.00 s"),
        ({"longest_s": 0.5}, "0 callbacks, 0 records read twice, longest time without an owner 0.50 s"),
    ],
)
def test_a_move_that_is_noticed_fails_unless_the_clients_can_not_be_converted_in_place(good, noticed, words):
    result = but(good, costs=(COST, msgspec.structs.replace(UNNOTICED, **noticed), COST, COST))
    assert problems(result) == [f"the move was noticed: {words}"]
    cooperative = msgspec.structs.replace(result, is_silent=False)
    assert problems(cooperative) == []
    assert f"The move: {words}." in printed(cooperative)


def test_nothing_produced_fails(good):
    assert problems(msgspec.structs.replace(good, produced=0)) == [
        "no record was produced, so the demo shows nothing"
    ]


def test_the_table_has_a_line_for_each_step_and_group(good):
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed(good).splitlines()]
    costs = ["6", "3 of 3", "1.25", "4.50", "2.75", "0"]
    unnoticed = ["0", "0 of 3", "0.00", "0.00", "0.00", "0"]
    assert [line for line in lines if len(line) == len(costs) + 3] == [
        ["join", "Classic", "classic", *costs],
        ["", "Epochgate", "classic", *costs],
        ["move", "Classic", "classic", *unnoticed],
        ["", "Epochgate", "consumer", *unnoticed],
        ["kill", "Classic", "classic", *costs],
        ["", "Epochgate", "consumer", *costs],
        ["back", "Classic", "classic", *costs],
        ["", "Epochgate", "classic", *costs],
    ]


def test_what_came_before_the_move_is_summed_up_and_what_came_after_it_without_the_way_back(good):
    said = "3 times before it, for 1.25 s in all, and 3 times after it, for 1.25 s."
    assert f"join, Epochgate: consumers that stayed stopped {said}" in " ".join(printed(good).split())


def test_the_session_timeout_of_the_broker_is_named_if_it_is_known(good):
    assert "group.consumer.session.timeout.ms is 6 s here and 45 s on a stock broker" in printed(good)
    unknown = msgspec.structs.replace(good, session_s=None)
    assert "group.consumer.session.timeout.ms" not in printed(unknown)
