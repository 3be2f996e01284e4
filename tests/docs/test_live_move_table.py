"""The tables of docs/evidence/in-place.md are made from what benchmarks/live_move.py recorded."""

from dataclasses import replace

from tools import live_move_table

COSTS = {"moves": 10, "callbacks": 0, "lost": 0, "read_twice": 0, "longest_gap_s": 0.0}
GROUP = {
    "applications": "Java 4.4.0, range",
    "in_place": True,
    "in": COSTS,
    "back": COSTS | {"callbacks": 120, "longest_gap_s": 0.518},
    "ended": 0,
    "records": 4812,
    "unread": 0,
    "two_owners": 0,
    "failed": "",
    "restart": {"read_twice": 6, "failed": ""},
}
RUN = {
    "kafka": "4.4.0",
    "replicas": 1,
    "before": False,
    "commit": "abcdef0",
    "date": "2026-11-28",
    "rounds": 10,
    "seconds": 300,
    "groups": [GROUP],
}
BLANK = "<!-- live moves -->\nold\n<!-- /live moves -->\n"


def test_a_group_is_a_row():
    row = "| Java 4.4.0, range | 10, 10 | 0 | 0 | 0, 0 | 120 | 0.00, 0.52 | 0, 0 (6) | 0, 0, 4,812 |"
    assert row in live_move_table.RUNS.written(BLANK, [RUN])


def test_what_went_wrong_is_in_the_row():
    stopped = GROUP | {"ended": 2, "failed": "translate: c1 ended", "in": COSTS | {"lost": 3}}
    written = live_move_table.table(RUN | {"groups": [stopped]})
    assert "| Java 4.4.0, range (stopped: translate: c1 ended) | 10, 10 | **2** | 0 | **3**, 0 |" in written


def test_groups_that_are_moved_all_at_once_come_last():
    other = GROUP | {"applications": "kafka-go", "in_place": False}
    written = live_move_table.table(RUN | {"groups": [other, GROUP]})
    assert written.index("Java 4.4.0") < written.index("kafka-go (all at once)")


def test_a_run_takes_the_place_of_that_of_the_same_kafka_replicas_members_and_code(tmp_path):
    runs = replace(live_move_table.RUNS, file=tmp_path / "runs.json")
    before, of_ten, again = (
        RUN | {"before": True},
        RUN | {"members": 10},
        RUN | {"members": 3, "seconds": 400},
    )
    for run in (before, RUN, of_ten, RUN | {"kafka": "4.0.1"}, again):
        runs.keep(run)
    assert runs.read() == [again, of_ten, RUN | {"kafka": "4.0.1"}, before]


def test_the_title_says_how_large_groups_are_that_are_not_of_three():
    assert "Kafka 4.4.0, one replica** (" in live_move_table.title(RUN)
    assert "Kafka 4.4.0, one replica, groups of 10** (" in live_move_table.title(RUN | {"members": 10})
