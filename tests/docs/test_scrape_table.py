"""The figures of a scrape on docs/evidence/observability-cost.md are those that benchmarks/scrape.py recorded."""

import json

from tools import scrape_table


def test_the_page_has_the_recorded_figures():
    result = json.loads(scrape_table.RESULT.read_text(encoding="utf-8"))
    page = scrape_table.PAGE.read_text(encoding="utf-8")
    assert page == scrape_table.page(page, result), "python -m tools.scrape_table writes it"


def test_another_figure_is_another_page():
    result = json.loads(scrape_table.RESULT.read_text(encoding="utf-8"))
    page = scrape_table.PAGE.read_text(encoding="utf-8")
    assert page != scrape_table.page(page, result | {"interval_s": 1_000})
