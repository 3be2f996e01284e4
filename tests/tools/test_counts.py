"""What the hot paths cost, in counts, is at most what benchmarks/path_bounds.toml allows."""

import sys

import pytest

from benchmarks import counts
from proxy.session.session import ClientSession
from tests.skips import not_here


@pytest.fixture(autouse=True)
def _python_of_the_bounds() -> None:
    if sys.version_info[:2] != (3, 11):
        not_here("the bounds are of Python 3.11")


def _counts() -> dict[str, counts.Counts]:
    return {path: found for path, (found, _) in counts.measure().items()}


def test_no_path_costs_more_than_its_bounds():
    assert counts.too_many(_counts(), counts.bounds()) == []


def test_each_bound_has_its_reason():
    assert {path: tuple(of_path) for path, of_path in counts.bounds().items()} == dict.fromkeys(
        counts.PATHS, counts.Counts._fields
    )
    assert all(reason for of_path in counts.bounds().values() for _, reason in of_path.values())


def test_one_more_call_in_a_request_is_seen(monkeypatch):
    process = ClientSession.process

    def longer(session: ClientSession) -> None:
        _ = session.idle  # which makes a call
        process(session)

    monkeypatch.setattr(ClientSession, "process", longer)
    monkeypatch.setattr(counts, "PATHS", {"request": counts.PATHS["request"]})

    found = counts.too_many(_counts(), counts.bounds())

    assert any(" calls, of which " in one for one in found)
