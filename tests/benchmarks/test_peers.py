"""Proxies take turns, and their values become one table."""

import pytest

from benchmarks import peers
from benchmarks.lib.peers import Way
from benchmarks.lib.quiet import Guard
from tools import peers_table

QUIET = [0.0, 0.0, 0.0]
RUN = {
    "kind": "cost",
    "kafka": "4.4.0",
    "machine": "2 processors",
    "commit": "abcdef0",
    "date": "2026-12-01",
    "command": "python -m x",
    "versions": {"HAProxy": "2.6"},
    "skipped": {},
    "ways": {
        "direct": {"consumer_mb_s": [100.0, 200.0, 400.0], "not_quiet": QUIET},
        "HAProxy": {
            "consumer_mb_s": [80.0, 150.0, 360.0],
            "request_added_us": [85.0, 95.0, 75.0],
            "not_quiet": [0.0, 1.0, 0.0],
        },
    },
}


@pytest.fixture
def table() -> list[str]:
    return peers_table.table(RUN).splitlines()


def test_each_way_is_a_column_with_its_version(table):
    assert table[0] == "| median (quartiles) | direct | HAProxy 2.6 |"


def test_a_ratio_is_that_to_direct_in_the_same_round(table):
    assert "| consumer, ratio of direct |  | 0.80 (0.75 to 0.90) |" in table


def test_a_cell_has_the_median_and_the_quartiles_and_is_empty_where_nothing_was_measured(table):
    assert "| 100-byte request, p50 added, µs |  | 85 (75 to 95) |" in table


def test_what_no_way_has_is_no_row(table):
    assert not [row for row in table if "Heartbeat" in row or "producer" in row]


def test_turns_that_were_not_quiet_are_counted_and_bold(table):
    assert table[-1] == "| turns that were not quiet | 0 of 3 | **1 of 3** |"


def test_a_proxy_that_was_skipped_is_below_with_its_reason():
    skipped = peers_table.table(RUN | {"skipped": {"kafka-proxy": "there is no Go"}})
    assert skipped.endswith("\n\nkafka-proxy was skipped: there is no Go\n")


def test_one_round_has_no_quartiles():
    ways = {"direct": {"producer_mb_s": [1234.4], "not_quiet": [0.0]}}
    assert "| producer, MB/s | 1,234 |\n" in peers_table.table(RUN | {"ways": ways})


def test_what_was_measured_is_above_the_table():
    assert peers_table.title(RUN) == (
        "Kafka 4.4.0, 2 processors, commit `abcdef0`, 2026-12-01 (`python -m x`, 3 rounds):"
    )


def test_another_way_begins_in_each_round_and_busy_turns_are_marked():
    now, used = [0.0], [0.0]
    turns: list[tuple[str, int]] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def work(way: Way, turn: int) -> dict[str, float]:
        turns.append((way.bootstrap, turn))
        sleep(1.0)
        used[0] += 0.3 if (way.bootstrap, turn) == ("b", 1) else 0.1
        return {"x": float(turn)}

    guard = Guard(60.0, lambda: used[0], lambda: now[0], sleep)
    ways = {name: Way(name) for name in ("a", "b", "c")}
    *_, values = peers.rounds(work, ways, 2, guard)
    assert turns == [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("a", 1)]
    assert values["b"] == {"x": [0.0, 1.0], "not_quiet": [0.0, 1.0]}
    assert values["a"] == {"x": [0.0, 1.0], "not_quiet": [0.0, 0.0]}
