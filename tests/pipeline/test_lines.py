"""One line of a journal: whatever it holds, it is an event or has a reason, and what it gives fits the tables."""

import json

import pytest

from audit import lines
from audit.lines import Line, owned_text, parse_line
from tests.pipeline.journal_lines import BAD, GOOD

ANOTHER_TYPE = "a field has another type than the schema says"
NOT_JSON = "not JSON"
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
    (line(new_field=0).replace(b'"new_field": 0', b'"new_field": ' + DEEP), NOT_JSON),
    (line(seq=2**63), ANOTHER_TYPE),
    (line(time_us=-(2**63) - 1), ANOTHER_TYPE),
    (line(generation=10**400), ANOTHER_TYPE),
    (line(seq=1.5), ANOTHER_TYPE),
    (line(member=5), ANOTHER_TYPE),
    (line(partitions={"topic": "t"}), ANOTHER_TYPE),
    (line(v="1"), "no version of the schema"),
    (line(v=None), "no version of the schema"),
    (b"null", "no version of the schema"),
    (line(group=None), "field 'group' is missing"),
    (line(owned={"topic": "t"}), "field 'owned' is not a list"),
])  # fmt: skip
def test_what_is_no_event_has_a_reason(content: bytes | None, reason: str) -> None:
    assert parse_line(content) == reason


def test_the_largest_numbers_are_events() -> None:
    event = parse_line(line(seq=2**63 - 1, generation=-(2**63)))
    assert isinstance(event, Line)
    assert (event.seq, event.generation) == (2**63 - 1, -(2**63))


def test_every_kind_of_the_schema_is_known() -> None:
    assert all(isinstance(parse_line(line(kind=kind)), Line) for kind in lines.KINDS)
