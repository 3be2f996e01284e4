"""The glossary names what the code has: each file exists, and each name stands in one of the files of its row."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "---" not in line and not line.endswith("| where |")
]


def python_files(path):
    return path.rglob("*.py") if path.is_dir() else [path]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0] or row[1])
def test_a_row_names_what_the_code_has(row):
    _term, _meaning, names, where = row
    files = [ROOT / path for path in re.findall(r"`([\w/.]+)`", where)]
    assert files
    assert [str(file) for file in files if not file.exists()] == []
    code = "".join(one.read_text(encoding="utf-8") for file in files for one in python_files(file))
    missing = [name for name in re.findall(r"`(\w+)`", names) if not re.search(rf"\b{name}\b", code)]
    assert missing == []


def test_there_are_rows():
    assert len(ROWS) > 30


OURS = (
    *(
        "move",
        "step",
        "quota",
        "slot",
        "hold",
        "wave",
        "gate",
        "window",
        "baseline",
        "latch",
        "approval",
        "hook",
    ),
    *("command", "shadow", "forecast", "proof", "fleet", "member log", "journal", "mending", "preflight"),
    *(
        "readiness",
        "helper",
        "adopt",
        "observer",
        "mode",
        "procedure",
        "action",
        "stuck",
        "elsewhere",
        "pass through",
    ),
)
"""Words that Kafka does not have, or has with another meaning."""
TERMS = " | ".join(row[0] for row in ROWS).lower()


@pytest.mark.parametrize("word", OURS)
def test_a_word_of_ours_that_a_page_uses_has_a_row(word):
    pages = " ".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md") if page != PAGE
    )
    assert re.search(rf"\b{word}", pages), f"no page says {word}: it needs no row"
    assert re.search(rf"\b{word}\b", TERMS), f"{word} is in no row of the glossary"


def test_each_subject_of_an_explanation_has_a_row():
    """A page of its own is what a reader looks up: its name is a word of the glossary."""
    others = {"architecture", "faq", "first-join", "security", "translation", "why"}  # pages about all of it
    subjects = {page.stem for page in (ROOT / "docs" / "explanation").glob("*.md")} - others
    lacking = {name for name in subjects if name.split("-")[0].rstrip("s") not in TERMS}
    assert lacking == EXPLAINED_ELSEWHERE


EXPLAINED_ELSEWHERE = {"client-side-assignors", "hosted-connect", "hosted-groups", "pipeline-plans"}
"""Experiments, and plans of Spark: their pages define their words."""
