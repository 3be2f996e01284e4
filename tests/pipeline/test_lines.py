"""One line of a journal: whatever it holds, it is an event or has a reason, and what it gives fits the tables."""

import json

import pytest

from pipeline.rules import lines
from pipeline.rules.lines import LAST_US, WORKER_FIELDS, Line, owned_text, parse_line, worker_value
from tests.pipeline.journal_lines import BAD, GOOD

ANOTHER_TYPE = "a field has another type than the schema says"
NOT_JSON = "not JSON"
TOO_DEEP = "nested too deeply, or not closed"
DEEP = b"[" * 100_000 + b"]" * 100_000


def line(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def test_an_event_keeps_what_it_may_hold_as_text() -> None:
    owned = [{"topic": "été", "id": None, "partitions": [0, 1]}]
    event = parse_line(
        json.dumps({**GOOD, "owned": owned, "new_field": {"v": 2}}, ensure_ascii=False).encode()
    )
    assert isinstance(event, Line)
    assert json.loads(owned_text(event) or "") == owned
    assert event.seq == 1
    nothing = parse_line(line(owned=None))
    assert isinstance(nothing, Line)
    assert owned_text(nothing) is None


@pytest.mark.parametrize(("content", "reason"), [
    (None, "no content"),
    *((text.encode(), reason) for text, reason in BAD.items()),
    (b"\xff\xfe", NOT_JSON),
    (line(member="m").replace(b'"m"', b'"\xff"'), NOT_JSON),
    (line() + b" x", NOT_JSON),
    (line(member="m").replace(b'"m"', b'"\\ud800"'), NOT_JSON),
    (line(new_field=0).replace(b'"new_field": 0', b'"new_field": ' + DEEP), TOO_DEEP),
    (line(seq=2**63), ANOTHER_TYPE),
    (line(time_us=-1), ANOTHER_TYPE),
    (line(time_us=LAST_US + 1), ANOTHER_TYPE),
    (line(generation=10**400), ANOTHER_TYPE),
    (line(seq=1.5), ANOTHER_TYPE),
    (line(member=5), ANOTHER_TYPE),
    (line(partitions={"topic": "t"}), ANOTHER_TYPE),
    (line(worker="http://w1:8083/"), ANOTHER_TYPE),
    (line(worker={"url": 5}), ANOTHER_TYPE),
    (line(worker={"delay_ms": 2**63}), ANOTHER_TYPE),
    (line(v="1"), "no version of the schema"),
    (line(v=None), "no version of the schema"),
    (b"null", "no version of the schema"),
    (line(group=None), "field 'group' is missing"),
    (line(owned={"topic": "t"}), "field 'owned' is not a list"),
])  # fmt: skip
def test_what_is_no_event_has_a_reason(content: bytes | None, reason: str) -> None:
    assert parse_line(content) == reason


def test_what_is_told_of_a_connect_worker_is_read_field_by_field() -> None:
    told = {
        "url": "http://w1:8083/",
        "config_offset": 7,
        "leader": "m1",
        "new_field": [],
        "delay_ms": 300_000,
    }
    event = parse_line(line(worker=told))
    assert isinstance(event, Line)
    assert [worker_value(event, field) for field in WORKER_FIELDS] == [
        "http://w1:8083/",
        7,
        "m1",
        None,
        300_000,
    ]
    nothing = parse_line(line())
    assert isinstance(nothing, Line)
    assert [worker_value(nothing, field) for field in WORKER_FIELDS] == [None] * 5


def test_the_largest_numbers_are_events() -> None:
    event = parse_line(line(seq=2**63 - 1, generation=-(2**63)))
    assert isinstance(event, Line)
    assert (event.seq, event.generation) == (2**63 - 1, -(2**63))


def test_every_kind_of_the_schema_is_known() -> None:
    assert all(isinstance(parse_line(line(kind=kind)), Line) for kind in lines.KINDS)
