"""Each item of the source documents says how it stands; what it names exists; its tests are collected by pytest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kips_pages import HERE, STATES, TITLES, Item, items

ROOT = Path(__file__).parents[2]
ITEMS = [item for document in TITLES for item in items(document)]


def test_items_have_ids_of_their_own() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)


def test_files_that_are_named_exist() -> None:
    named = {file for item in ITEMS for file in re.findall(r"`([a-z_]+/[^` ]+)`", item.why)}

    assert named
    assert [file for file in sorted(named) if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("document", TITLES)
def test_an_item_says_how_it_stands_and_where_or_why(document: str) -> None:
    assert [item.id for item in items(document) if not _complete(item)] == []


def _complete(item: Item) -> bool:
    """Tell whether the item has a sentence, a state and a place or reason; what is here is somewhere, with a test."""
    said = bool(item.item and item.why) and item.state in STATES
    return said and (item.state != HERE or ("`" in item.why and bool(item.tests)))


def test_each_test_that_is_named_is_collected() -> None:
    ids = sorted({one for item in ITEMS for one in item.collected()})
    options = ["--collect-only", "--quiet", "--long", "-p", "no:cacheprovider"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *ids],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
