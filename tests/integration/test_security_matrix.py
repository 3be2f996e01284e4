"""Who can do what to whom: equal through the proxy and straight at Kafka, cell by cell (security_matrix/)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from security_matrix import table
from security_matrix.callers import CALLERS
from security_matrix.calls import CALLS
from security_matrix.cell import Outcome
from security_matrix.differences import difference, unexplained, unused
from security_matrix.matrix import Cell, places, play_all, secured_broker

from tests.skips import not_here

WITHOUT_READ = ("unauthenticated", "without", "describes")


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module):
    return own_kafka_of_module(**secured_broker())


@pytest.fixture(scope="module")
def cells(cluster, empty_folder) -> Sequence[Cell]:
    """The whole matrix, played once: a minute and a half."""
    with places(cluster, empty_folder("security-matrix")) as ways:
        return play_all(ways)


def lines(cells: Sequence[Cell]) -> list[str]:
    return [
        f"{one.call.api} {one.call.title}, {one.caller.title}: {one.straight} -> {one.through}"
        for one in cells
    ]


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_every_cell_is_as_straight_at_kafka_or_has_a_reason(cells, cluster):
    assert lines(unexplained(cells, cluster.version)) == []


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_without_read_on_the_group_nothing_happens_to_the_members(cells):
    strangers = [cell for cell in cells if cell.caller.key in WITHOUT_READ]
    assert len(strangers) == len(CALLS) * len(WITHOUT_READ)
    assert lines([cell for cell in strangers if cell.through.effect or cell.straight.effect]) == []


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_every_reason_is_about_something_that_is_seen(cells, cluster):
    assert unused(cells, cluster.version) == []


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_the_page_has_this_table(cells, cluster):
    """For the version whose whole table the page has, except where Kafka itself answers now so and now so."""
    page = table.written()
    (version,) = page.splitlines()[0].removeprefix("Kafka ").split(":")[:1]
    if cluster.version != version:
        not_here(f"docs/evidence/security-matrix.md has the whole table of Kafka {version}")
    shown = set(map(without_race, page.splitlines()))
    seen = map(without_race, table.chapter({version: cells}).splitlines())
    assert [line for line in seen if line not in shown] == []


def without_race(line: str) -> str:
    """A row as it is if Kafka has answered the caller before the member's own JoinGroup took the place of its call.

    Straight at Kafka that is a race: the member hears of the rebalance at its next heartbeat (reason 4).
    """
    return line.replace("no answer; a rebalance → NONE; a rebalance (4)", "NONE; a rebalance")


def test_a_row_is_the_same_whoever_wins_the_race_at_kafka():
    late = "| JoinGroup | FENCED | no answer; a rebalance → NONE; a rebalance (4) | no answer; a rebalance → NONE (4) |"
    in_time = "| JoinGroup | FENCED | NONE; a rebalance | no answer; a rebalance → NONE (4) |"
    assert without_race(late) == without_race(in_time) == in_time


# -- the judge -----------------------------------------------------------------------------------------------


def test_rows_and_columns_are_told_apart():
    assert len({(call.api, call.title) for call in CALLS}) == len(CALLS)
    assert len({caller.key for caller in CALLERS}) == len(CALLERS)


def test_a_cell_that_comes_to_something_else_than_its_difference_says_is_not_explained():
    caller = next(one for one in CALLERS if one.key == "reads")
    call = next(one for one in CALLS if one.title == "v5, the static member's ids")
    known = Cell(caller, call, Outcome("NONE", ""), Outcome("NONE", "a rebalance"))
    worse = replace(known, through=Outcome("NONE", "static: no member any more"))
    stranger = replace(known, caller=CALLERS[0])
    assert difference(known, "4.4.0") is not None
    assert unexplained([known, worse, stranger], "4.4.0") == [worse, stranger]


def test_the_table_says_both_outcomes_where_they_differ():
    caller, call = CALLERS[0], CALLS[0]
    cell = Cell(caller, call, Outcome("closed", ""), Outcome("NONE", "a rebalance"))
    (row,) = table.rows_of([cell], "4.4.0", []).values()
    assert row[caller] == "**closed → NONE; a rebalance**"


def test_what_stands_between_the_markers_is_replaced():
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    assert table.page_with("new\n", page) == f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n"
