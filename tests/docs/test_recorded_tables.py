"""The tables of docs/ that are made from what benchmarks recorded are those of the recorded runs."""

from dataclasses import replace

import pytest

from tools import commits_table, compiled_table, coordinator_random_table, start_together_table
from tools.recorded_tables import TABLES

ABOUT = {"kafka": "4.4.0", "commit": "abcdef0", "date": "2026-11-29", "load": 1.5, "command": "python -m x"}
CONSUMER = {
    "entry": "through Epochgate", "commits": 60_000, "accepted": 60_000, "errors": {}, "lost": 0, "seconds": 24.0,
    "longest_s": 20.04, "cpu_s": 12.0,
}  # fmt: skip
START = {"mode": "one proxy", "members": 6, "assigned": 6, "revoked": 0, "first_s": 3.0, "settled_s": 3.5}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.marker)
def test_a_page_is_what_the_recorded_runs_make(table):
    page = table.page.read_text(encoding="utf-8")
    assert table.written(page, table.read()) == page


@pytest.mark.parametrize("table", [commits_table, start_together_table], ids=lambda table: table.RUNS.marker)
def test_a_run_takes_the_place_of_that_of_the_same_kafka_and_newer_ones_come_first(table, tmp_path):
    runs = replace(table.RUNS, file=tmp_path / "runs.json")
    older, again = ABOUT | {"kafka": "4.0.1"}, ABOUT | {"load": 2.0}
    for run in (older, ABOUT, again):
        runs.keep(run)
    assert runs.read() == [again, older]


def test_what_a_run_was_measured_with_is_above_its_table():
    page = commits_table.RUNS.written(
        "<!-- commits -->\nold\n<!-- /commits -->\n", [ABOUT | {"rows": [CONSUMER]}]
    )
    assert "Kafka 4.4.0, commit `abcdef0`, 2026-11-29, load average 1.5 (`python -m x`):\n\n| entry |" in page


def test_a_consumer_whose_commits_were_all_accepted_is_a_row():
    assert commits_table.row(CONSUMER) == (
        "| through Epochgate | 60,000 of 60,000 | 0 | 0 | 24.0 s | 2,500 | 20.0 s | 200 µs |\n"
    )


def test_refused_commits_and_lost_partitions_are_bold_and_refusals_are_answers_too():
    refused = {"accepted": 36_000, "errors": {"UNKNOWN_MEMBER_ID": 12_000}, "lost": 1, "cpu_s": 0.0}
    assert commits_table.row(CONSUMER | refused) == (
        "| through Epochgate | 36,000 of 60,000 | **12,000 UNKNOWN_MEMBER_ID** | **1** | 24.0 s | 2,000 | 20.0 s |  |\n"
    )


def test_starts_of_a_size_and_way_are_one_row_with_the_range_of_callbacks_and_the_median_of_times():
    again = START | {"assigned": 8, "revoked": 2, "first_s": 4.0, "settled_s": 7.5}
    larger = START | {"members": 30}
    table = start_together_table.table(ABOUT | {"starts": [larger, START, again]})
    assert "| 6 | one proxy | 2 | 6 to 8 | 0 to 2 | 3.50 | 5.50 |\n| 30 | one proxy | 1 | 6 | 0 |" in table


def test_forms_are_compared_by_the_medians_of_their_rounds():
    rounds = {name: [90.0, 100.0, 110.0] for name in compiled_table.MEASURES}
    run = {
        "plain": rounds, "compiled": rounds | {"heartbeat": [85.0, 75.0, 95.0]}, "modules": 7, "bytes": 3 << 20,
        "cpu_s": 90, "others": 0.1,
    }  # fmt: skip
    table = compiled_table.table(run)
    assert "translated Heartbeat, µs | 100 (90 to 110) | 85 (75 to 95) | -15% |" in table
    assert "7 extension modules of 3 MiB, which took 1.5 minutes of processor time" in table


def test_random_scenarios_are_added_up_and_differences_named():
    run = {
        "scenarios": {"static": {"played": 1200, "differ": 0}, "share": {"played": 30, "differ": 2}},
        "differences": {"Kafka: beats | embedded: beats": ["share 3", "share 7"]},
        "steps": 90_000,
        "records": 120_000,
        "scenarios_an_hour": 3_600,
    }
    table = coordinator_random_table.table(run)
    assert "| static | 1,200 | 0 |\n| share | 30 | 2 |\n| all | **1,230** | **2** |\n" in table
    assert table.endswith("an hour.\n- 2 of `Kafka: beats | embedded: beats`: share 3, share 7\n")
