"""The compatibility matrix shows what failed, and counts what passed."""

import pytest

from tools import compatibility


def result(outcome="passed", **changes):
    return {
        "kafka": "4.4.0",
        "client": "java",
        "version": "4.4.0",
        "assignor": "range",
        "scenario": "every record is read once",
        "outcome": outcome,
    } | changes


def row(page, client):
    return next(line for line in page.splitlines() if line.startswith(f"| {client} "))


def test_a_cell_counts_the_scenarios_that_passed():
    page = compatibility.page([result(), result(assignor="sticky")])
    assert row(page, "java as the broker") == "| java as the broker | range, sticky | 2 of 2 |"


def test_a_scenario_that_failed_is_named_with_its_assignor():
    page = compatibility.page([result(), result("failed", assignor="sticky")])
    assert row(page, "java").endswith("| 1 of 2; **failed**: two read every record once (sticky) |")


def test_what_did_not_run_with_a_version_is_an_empty_cell():
    page = compatibility.page([result(), result(kafka="4.0.1", client="kafkajs", version="2.2.4")])
    assert row(page, "kafkajs 2.2.4") == "| kafkajs 2.2.4 | range |  | 1 of 1 |"


def test_versions_are_in_the_order_of_numbers():
    page = compatibility.page(
        [result(kafka=version, version="1") for version in ("4.9.0", "4.10.0", "4.2.0")]
    )
    assert "| Kafka 4.10.0 | Kafka 4.9.0 | Kafka 4.2.0 |" in page


def test_a_newer_result_takes_the_place_of_the_older_one():
    assert compatibility.merged([result(), result(client="a")], [result("failed")]) == [
        result(client="a"),
        result("failed"),
    ]


@pytest.mark.parametrize("line", [{"entry": "direct"}, {"entry": "observe"}, {"outcome": "skipped"}])
def test_only_what_ran_through_a_proxy_that_translates_counts(line):
    seen = result() | {"entry": "translate", "measured": {}}
    assert compatibility.from_tests([seen]) == [result()]
    assert compatibility.from_tests([seen | line]) == []


def test_a_scenario_without_a_column_of_its_own_counts_and_is_listed_all_the_same():
    page = compatibility.page([result("failed", scenario="something new")])
    assert row(page, "java").endswith("| 0 of 1; **failed**: something new (range) |")
    assert "| something new | something new | 4.4.0 |" in page
