"""The tables of docs/evidence/clients.md are made from what the integration tests wrote down."""

from tools import scenario_table

BLANK = (
    "<!-- outcomes -->\nold outcomes\n<!-- /outcomes -->\n<!-- changes -->\nold changes\n<!-- /changes -->\n"
)


def line(entry, **changes):
    return {
        "kafka": "4.4.0",
        "client": "java",
        "version": "4.4.0",
        "assignor": "range",
        "scenario": scenario_table.LIFE,
        "entry": entry,
        "outcome": "passed",
        "measured": {"join_s": 2, "kill_s": 5, "leave_s": 1},
    } | changes


def test_a_scenario_through_the_proxy_is_a_cell_of_the_first_table():
    written = scenario_table.page(
        BLANK, [line("translate"), line("translate", assignor="sticky", outcome="failed")]
    )
    assert "| java | 4.4.0 | range | yes |" in written
    assert "| java | 4.4.0 | sticky | **no** |" in written


def test_a_group_that_ran_both_ways_is_a_row_of_the_second_table():
    measured = {"join_s": 3, "kill_s": 4, "leave_s": 1}
    written = scenario_table.page(BLANK, [line("direct", measured=measured), line("translate")])
    assert "| java | 4.4.0 | range | 3 → 2 | 4 → 5 | 1 → 1 | ? → ? |" in written


def test_a_table_without_new_rows_stays():
    written = scenario_table.page(BLANK, [line("translate")])
    assert "old outcomes" not in written
    assert "old changes" in written


def test_the_page_has_both_tables():
    page = scenario_table.PAGE.read_text(encoding="utf-8")
    assert scenario_table.page(page, []) == page
    assert scenario_table.page(page, [line("direct"), line("translate")]) != page
