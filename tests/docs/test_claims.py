"""Claims of the front pages that were once untrue."""

import re

import pytest

from tests.docs import pages

README = pages.ROOT / "README.md"
DOCS = sorted((pages.ROOT / "docs").rglob("*.md"))
TEXTS = [README, *DOCS]
CODE = [file for room in ("proxy", "pipeline", "translation") for file in (pages.ROOT / room).rglob("*.py")]


def text_of(*page: str) -> str:
    return " ".join(pages.ROOT.joinpath(*page).read_text(encoding="utf-8").split())


def test_nobody_is_sent_to_an_index_that_does_not_have_the_package() -> None:
    for file in (*TEXTS, *CODE):
        assert not re.search(r"pip install ['\"]?epochgate\b", file.read_text(encoding="utf-8")), file


def limits() -> dict[str, str]:
    """The points of README's limits, by their first words."""
    section = README.read_text(encoding="utf-8").split("## Limits")[1].split("\n## ")[0]
    points = re.findall(r"^- \*\*(.+?)\.\*\* (.*?)(?=^- |\Z)", section, re.MULTILINE | re.DOTALL)
    return dict(points)


@pytest.mark.parametrize("point", ["Throughput", "Latency"])
def test_a_figure_of_performance_in_the_readme_is_on_its_page(point: str) -> None:
    text, page = limits()[point], text_of("docs", "evidence", "performance.md")
    assert "docs/evidence/performance.md" in text
    for figure in re.findall(r"\d+(?:\.\d+)?", re.sub(r"\]\(.*?\)", "", text)):
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\.?\d)", page), figure


def test_the_throughput_in_why_is_on_the_page_that_it_names() -> None:
    (text,) = re.findall(
        r"every bit of throughput\.\*\* (.*?)- \*\*", text_of("docs", "explanation", "why.md")
    )
    for figure in re.findall(r"\d\.\d+", text):
        assert figure in text_of("docs", "evidence", "performance.md"), figure


@pytest.mark.parametrize(
    "page", [("README.md",), ("docs", "explanation", "why.md"), ("docs", "how-to", "upgrade.md")]
)
def test_the_two_topics_are_not_denied(page: tuple[str, ...]) -> None:
    assert not re.search(r"keeps no state|no state of its own", text_of(*page))


def test_the_chart_has_the_fleet_and_so_its_page_does_not_call_it_a_trial() -> None:
    values = (pages.ROOT / "charts" / "epochgate" / "values.yaml").read_text(encoding="utf-8")
    assert re.search(r"^fleet:\n(?:  #.*\n)*  enabled: true$", values, re.MULTILINE)
    assert "try it with groups that can stand that" not in text_of("docs", "how-to", "fleet.md")


def test_what_can_be_asked_before_a_move_is_named() -> None:
    faq = text_of("docs", "explanation", "faq.md")
    answer = faq.split("How do I know that a group can move before I try?**")[1].split(" **")[0]
    for way in ("epochgate preflight", "epochgate pipeline readiness", "epochgate policy plan", "shadow.md"):
        assert way in answer


def test_the_demo_is_called_what_it_shows() -> None:
    for file in (README, pages.ROOT / "Makefile"):
        (line,) = (
            line
            for line in file.read_text(encoding="utf-8").splitlines()
            if line.startswith(("$ make demo", "demo: setup"))
        )
        assert "move" in line


def test_a_newcomer_reads_the_contributing_pages_in_ten_minutes() -> None:
    pages_to_read = ("testing.md", "codecs.md", "coordinator.md")
    text = text_of("CONTRIBUTING.md") + "".join(text_of("docs", "contributing", one) for one in pages_to_read)
    words = re.findall(r"[A-Za-z0-9][\w./'-]*", re.sub(r"```.*?```|\]\(.*?\)", "", text))
    assert "ten minutes for all four" in text
    assert len(words) <= 10 * 280  # words that a person reads in a minute
