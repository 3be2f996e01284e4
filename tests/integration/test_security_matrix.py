"""Who can do what to whom: equal through the proxy and straight at Kafka, cell by cell (security_matrix/)."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from security_matrix import table
from security_matrix.callers import CALLERS
from security_matrix.calls import CALLS
from security_matrix.cell import Outcome
from security_matrix.differences import difference, unexplained, unused
from security_matrix.matrix import Cell, Way, places, play_all, secured_broker
from security_matrix.table import without_race

from tests.skips import not_here
from tools.kafka.tls_files import TlsFiles

WITHOUT_READ = ("unauthenticated", "without", "describes")


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("security-matrix-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, tls):
    return own_kafka_of_module(**secured_broker(tls))


@pytest.fixture(scope="module")
def played(cluster, tls, empty_folder) -> Iterator[Callable[[Way], Sequence[Cell]]]:
    """The whole matrix on each way, played once: a minute and a half."""
    with places(cluster, tls, empty_folder("security-matrix")) as places_of:
        yield functools.cache(lambda way: play_all(places_of, way))


@pytest.fixture(params=Way, ids=str)
def cells(request, played) -> Sequence[Cell]:
    """The matrix on one way."""
    return played(request.param)


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
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ways", [(Way.SASL,), tuple(Way)], ids=["SASL", "certificates"])
def test_the_page_has_this_table(played, cluster, ways):
    """For the version whose whole table the page has, except where Kafka itself answers now so and now so."""
    page = table.written()
    (version,) = page.splitlines()[0].removeprefix("Kafka ").split(":")[:1]
    if cluster.version != version:
        not_here(f"docs/evidence/security-matrix.md has the whole table of Kafka {version}")
    shown = set(map(without_race, page.splitlines()))
    cells = [cell for way in ways for cell in played(way)]
    seen = map(without_race, table.chapter({version: cells}).splitlines())
    assert [line for line in seen if line not in shown] == []


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


def test_a_difference_of_one_way_explains_nothing_on_another():
    caller = next(one for one in CALLERS if one.key == "owner")
    call = next(one for one in CALLS if one.api == "CreateDelegationToken")
    closed = Cell(caller, call, Outcome("NONE", ""), Outcome("closed", ""), Way.CERTIFICATES)
    assert difference(closed, "4.4.0") is not None
    assert difference(replace(closed, way=Way.SASL), "4.4.0") is None


def test_of_clients_with_certificates_the_table_has_what_differs():
    caller, other, call = *CALLERS[1:3], next(one for one in CALLS if one.api == "CreateDelegationToken")
    made, closed = Outcome("NONE", ""), Outcome("closed", "")
    cells = [Cell(one, call, made, made) for one in (caller, other)]
    of_certificates = [replace(one, through=closed, way=Way.CERTIFICATES) for one in cells]
    assert "clients with certificates: the same in every cell" in table.chapter(
        {"4.4.0": [*cells, *(replace(one, through=made) for one in of_certificates)]}
    )
    assert (
        f"| {call.api} {call.title} | {caller.title}; {other.title} | NONE → closed (1) |"
        in table.chapter({"4.4.0": [*cells, *of_certificates]})
    )


def test_what_stands_between_the_markers_is_replaced():
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    assert table.page_with("new\n", page) == f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n"
