"""The page on the way of a first JoinGroup is what a traced run shows."""

import re

import pytest

from tools.first_join import page
from tools.first_join.run import traced
from tools.first_join.trace import BYTES

TEXT = page.PAGE.read_text(encoding="utf-8")
HINT = "python -m tools.first_join writes the page"


@pytest.fixture(scope="module")
def way():
    return traced()


def test_the_page_lists_the_files_in_the_order_in_which_the_call_comes_to_them(way):
    table = TEXT.split("<!-- files -->")[1]
    assert re.findall(r"^\| \d+ \| `(\S+)`", table, re.MULTILINE) == list(way.stops), HINT


def test_the_page_draws_the_forms(way):
    drawn = re.findall(r"^    f\d+\W+(\w+)<br>(\S+\.py)\W+$", TEXT.split("<!-- forms -->")[1], re.MULTILINE)
    assert drawn == way.forms, HINT


def test_it_begins_and_ends_with_bytes_and_each_file_ran(way):
    assert (way.forms[0].name, way.forms[-1].name) == (BYTES, BYTES)
    assert set(way.stops) < way.files
    assert all(stop.lines and stop.functions for stop in way.stops.values())
