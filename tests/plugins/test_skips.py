"""Every skip goes through `tests/skips.py`, so that CI fails for what is missing."""

import re
from pathlib import Path

import pytest

from tests import skips

ROOT = Path(__file__).parents[2]
BY_ITSELF = re.compile(
    r"pytest\.skip\(|skipif|mark\.skip\b|importorskip|EPOCHGATE_REQUIRE_|unittest\.skip|SkipTest"
)


def test_no_test_skips_by_itself():
    files = [
        file for file in (ROOT / "tests").rglob("*.py") if file not in {Path(skips.__file__), Path(__file__)}
    ]
    assert len(files) > 500
    assert [file.name for file in files if BY_ITSELF.search(file.read_text(encoding="utf-8"))] == []


def test_ci_requires_all_that_can_be_required():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert set(re.findall(r"^export (\w+)=1$", run, re.MULTILINE)) == {need.value for need in skips.Need}


@pytest.mark.parametrize("need", skips.Need)
def test_what_is_missing_skips_a_test_or_fails_it_where_it_is_required(need, monkeypatch):
    monkeypatch.delenv(need, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such thing"):
        skips.without(need, "no such thing")
    monkeypatch.setenv(need, "1")
    with pytest.raises(pytest.fail.Exception, match=f"{need} is set, but: no such thing"):
        skips.without(need, "no such thing")


def test_a_program_that_is_missing_is_a_tool(monkeypatch):
    assert skips.program("sh", "dash").endswith("/sh")
    monkeypatch.setenv(skips.Need.TOOLS, "1")
    with pytest.raises(pytest.fail.Exception, match="install Debian's package `nothing`"):
        skips.program("no-such-program", "nothing")


def test_what_a_broker_cannot_have_is_skipped_in_ci_too(monkeypatch):
    for need in skips.Need:
        monkeypatch.setenv(need, "1")
    with pytest.raises(pytest.skip.Exception, match="has none"):
        skips.not_here("Kafka 4.0 has none")
