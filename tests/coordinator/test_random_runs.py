"""``python -m tests.coordinator`` compares what it kept of Kafka again, and says what differs."""

import gzip
from pathlib import Path

import pytest

from tests.coordinator import __main__ as runs
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.trace import Recording

NAME = "static_member_bounces"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "KEPT", tmp_path)
    monkeypatch.setattr(runs, "player", lambda _kind, _seed: SCENARIOS[NAME])
    return runs.folder("static") / "random-static-7.json.gz"


def test_what_is_kept_is_compared_without_kafka(kept: Path):
    kept.write_bytes(gzip.compress(Recording.read(NAME).text().encode()))

    outcome = runs.one(("static", 7), None, None)

    assert outcome is not None
    assert (outcome.difference, outcome.was_played) == ("", False)
    assert outcome.steps > 10


def test_what_was_never_played_needs_kafka():
    assert runs.one(("static", 7), None, None) is None


def test_a_difference_is_said_with_its_kind(kept: Path):
    recording = Recording.read(NAME)
    recording.transcript[2][1]["epoch"] += 1
    kept.write_bytes(gzip.compress(recording.text().encode()))

    outcome = runs.one(("static", 7), None, None)

    assert outcome is not None
    assert "step 3 of" in outcome.difference
    assert runs.result([outcome], hours=0.5)["scenarios"]["static"] == {"played": 1, "differ": 1}


def test_kinds_of_differences_leave_out_ids_and_numbers():
    records = ["K1(group_id='random-3') -> V1(epoch=4)", "K2(group_id='random-3') -> V2(epoch=5)"]
    ours, theirs = (f"  embedded: {records[0]}", f"  Kafka:    {records[1]}")

    assert runs.kind_of_difference(f"the logs differ: record 3 of 9\n{theirs}\n{ours}") == (
        "Kafka:    K2 | embedded: K1"
    )
