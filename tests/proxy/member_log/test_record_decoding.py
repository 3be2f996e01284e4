"""What a record of the topic is: whatever somebody puts there is a record of ours, or is named and skipped."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.member_log.log_events import GroupRecordRead, RecordIgnored, RecordRead, RecordUnknown
from proxy.member_log.record_decoding import RawRecord, decode_record
from tests.proxy.member_log.forging import (
    APPENDED_MS,
    GROUP,
    HEADER,
    OFFSET,
    OTHER,
    PARTITION,
    PARTITIONS,
    group_key_of,
    key_of,
    packed,
    read,
)
from translation.member_log.counting import CLOCK_SKEW_MS, Stored
from translation.member_log.formats import FORMAT_HEADER
from translation.member_log.group_records import GroupKey, GroupRecord, Move, Slot
from translation.member_log.records import (
    PROBE,
    Ignored,
    Kind,
    MemberKey,
    MemberRecord,
    encode_key,
    encode_value,
)
from translation.member_log.replicas import LONGEST_HEADER, REPLICA_HEADER

FAR_MS = APPENDED_MS + CLOCK_SKEW_MS + 1
DEEP = b"\x91" * 3_000


def test_records_of_ours_are_read() -> None:
    record = MemberRecord(Kind.SERVED, OFFSET)
    stored = Stored(OFFSET, APPENDED_MS, OTHER, record)
    key = MemberKey(GROUP, "m")
    assert read(key_of(), encode_value(record)) == RecordRead(
        PARTITION, key, OTHER, stored, OFFSET, APPENDED_MS
    )
    group = read(group_key_of("slot 1"), packed(version=1, slot={"member_id": "m"}))
    assert isinstance(group, GroupRecordRead)
    assert group.key == GroupKey(GROUP, "slot 1")
    assert group.stored.record == GroupRecord(1, slot=Slot("m"))


def test_a_probe_names_its_replica_unless_the_name_is_too_long() -> None:
    for name, read_as in (
        (b"x" * LONGEST_HEADER, b"x" * LONGEST_HEADER),
        (b"x" * (LONGEST_HEADER + 1), None),
        ("x", None),
    ):
        headers = {FORMAT_HEADER: HEADER, REPLICA_HEADER: name}
        event = read(encode_key(PROBE, OTHER), None, headers=headers)
        assert event == RecordRead(PARTITION, PROBE, OTHER, None, OFFSET, APPENDED_MS, read_as)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""), ("text", b""), (b"", b""), (b"\xff", b""), (DEEP, b""), (b"\x94" + DEEP, b""),
        (b"\x93\xa1\xff\xa1m\xc4\x01w", b""), (b"\x93\xa1g\xa1\xff\xc4\x01w", b""),
        (msgspec.msgpack.encode((GROUP, "m", bytes(17))), b""), (msgspec.msgpack.encode((GROUP, "m", b"")), b""),
        (msgspec.msgpack.encode(("g" * 256, "m", OTHER)), b""), (msgspec.msgpack.encode(("", "m", OTHER)), b""),
        (msgspec.msgpack.encode(("other", GROUP, "move", OTHER)), b""),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_a_key_that_is_none(key: object, value: object) -> None:
    event = read(key, value)
    assert isinstance(event, RecordIgnored)
    assert event.reason is Ignored.KEY
    assert len(event.why) <= 300


MEMBER_FIELDS: list[dict[str, Any]] = [
    {"kind": "parked"}, {"kind": 1}, {"version": -1}, {"version": 2**63}, {"version": 2**64 - 1}, {"version": "1"},
    {"version": 1.5}, {"server": "s" * 256}, {"instance_id": "i" * 256}, {"session_timeout_ms": 2**31},
    {"session_timeout_ms": -(2**31) - 1}, {"rebalance_timeout_ms": 2**31}, {"generation": 2**31}, {"generation": -2},
    {"snapshot": bytes(8193)}, {"snapshot": "text"}, {"first": 1},
]  # fmt: skip


@pytest.mark.parametrize("fields", MEMBER_FIELDS, ids=repr)
def test_a_field_of_a_member_that_is_out_of_range(fields: dict[str, Any]) -> None:
    event = read(key_of(), packed(**{"kind": "served", "version": 1} | fields))
    assert isinstance(event, RecordIgnored)
    assert event.reason is Ignored.VALUE


MOVE_FIELDS: list[dict[str, Any]] = [
    {field: bad}
    for field in ("number", "step", "since_ms", "settled_ms", "approved")
    for bad in (-1, 2**63, "1")
]
GROUP_FIELDS: list[dict[str, Any]] = [
    *({"move": {"steps": "1"} | fields} for fields in MOVE_FIELDS),
    {"move": {"steps": "1", "hook": {"step": -1, "by": "", "asked_ms": 0}}},
    {"move": {"steps": "1", "hook": {"step": 0, "by": "", "asked_ms": 0, "tries": 1_001}}},
    {"move": {"steps": "1", "hook": {"step": 0, "by": "", "asked_ms": 0, "tries": 0, "why": "no"}}},
    {"move": {"steps": "1", "baseline": [0, float("nan")]}}, {"move": {"steps": "1", "baseline": [0, float("inf")]}},
    {"slot": {"number": -1}}, {"proof": {"clean_ms": -1}}, {"proof": {"ago_ms": 2**63}}, {"mend": {"tries": -1}},
    {"mend": {"tries": 6}},
    {"mend": {"unowned": -1}}, {"report": {"windows": [[-1]]}}, {"report": {"windows": [[1, 2**63]]}},
    {"report": {"writers": [bytes(17)]}}, {"host": {"is_over": 1}}, {"version": -1}, {"version": 2**63},
    {"server": "s" * 256}, {"move": {"steps": "s" * 4096}},
]  # fmt: skip


@pytest.mark.parametrize("fields", GROUP_FIELDS, ids=lambda fields: repr(fields)[:60])
def test_a_field_of_a_group_that_is_out_of_range(fields: dict[str, Any]) -> None:
    event = read(group_key_of("move"), packed(**{"version": 1} | fields))
    assert isinstance(event, RecordIgnored)
    assert event.reason is Ignored.VALUE


@pytest.mark.parametrize("value", [None, "text", b"", b"junk", DEEP, b"\x81\xa1x" + DEEP, bytes(20_000)])
def test_a_value_that_is_none(value: object) -> None:
    for key in (key_of(), group_key_of("move")):
        event = read(key, value)
        assert isinstance(event, RecordIgnored)
        assert event.reason is Ignored.VALUE


def test_a_writer_has_not_seen_what_comes_after_its_record() -> None:
    for key, fields in ((key_of(), {"kind": "served"}), (group_key_of("move"), {})):
        assert not isinstance(read(key, packed(version=OFFSET, **fields)), RecordIgnored)
        later = read(key, packed(version=OFFSET + 1, **fields))
        assert isinstance(later, RecordIgnored)
        assert later.reason is Ignored.PLACE


def test_a_record_in_another_partition_than_its_group_is_none() -> None:
    for key in (key_of(), group_key_of("move")):
        event = read(key, packed(kind="served", version=1), partition=(PARTITION + 1) % PARTITIONS)
        assert isinstance(event, RecordIgnored)
        assert event.reason is Ignored.PLACE


@pytest.mark.parametrize(
    "move",
    [
        {"since_ms": FAR_MS}, {"settled_ms": FAR_MS}, {"said": {"act": "", "by": "", "at_ms": FAR_MS, "id": ""}},
        {"hook": {"step": 0, "by": "", "asked_ms": FAR_MS}}, {"baseline": [FAR_MS]},
    ],
    ids=repr,
)  # fmt: skip
def test_a_move_that_speaks_of_the_future_is_none(move: dict[str, Any]) -> None:
    event = read(group_key_of("move"), packed(version=1, move={"steps": "1"} | move))
    assert isinstance(event, RecordIgnored)
    assert event.reason is Ignored.TIME


def test_a_time_of_the_writer_s_own_does_not_count() -> None:
    """If somebody has the topic keep the producers' timestamps, what is young is not forgotten by a forged one."""
    for key in (key_of(), group_key_of("move"), encode_key(PROBE, OTHER)):
        for timestamp in ((1, APPENDED_MS), (0, -1)):
            event = read(key, packed(kind="served", version=1), timestamp=timestamp)
            assert isinstance(event, RecordIgnored)
            assert event.reason is Ignored.TIME


@pytest.mark.parametrize(
    "headers", [{}, {"v": None}, {"v": "1"}, {"v": b""}, {"v": b"v1"}, {"v": b"\0"}], ids=repr
)
def test_without_a_format_it_is_none(headers: dict[str, object]) -> None:
    event = read(key_of(), packed(kind="served", version=1), headers=headers)
    assert isinstance(event, RecordIgnored)
    assert event.reason is Ignored.FORMAT


def test_a_record_of_a_later_release_stands_for_the_end_of_its_member() -> None:
    headers = {FORMAT_HEADER: b"\x63"}
    event = read(key_of(), b"not msgpack at all", headers=headers)
    stored = Stored(OFFSET, APPENDED_MS, OTHER, MemberRecord(Kind.ENDED, OFFSET))
    assert isinstance(event, RecordUnknown)
    assert event[:-1] == (PARTITION, MemberKey(GROUP, "m"), stored, OFFSET, APPENDED_MS)
    of_group = read(group_key_of("move"), b"\xff", headers=headers)
    assert isinstance(of_group, RecordUnknown)
    assert of_group[1:3] == (GroupKey(GROUP, "move"), None)
    probe = read(encode_key(PROBE, OTHER), None, headers=headers)
    assert isinstance(probe, RecordRead), "a replica of the later release is known"
    assert isinstance(read(b"\xff", b"", headers=headers), RecordIgnored)


@given(
    st.binary(max_size=60),
    st.binary(max_size=60),
    st.dictionaries(st.sampled_from([FORMAT_HEADER, REPLICA_HEADER, "x"]), st.none() | st.binary(max_size=4)),
)
def test_any_bytes_are_an_event(key: bytes, value: bytes, headers: dict[str, Any]) -> None:
    for record in (
        RawRecord(0, 1, (2, 1), headers, key, value),
        RawRecord(0, 1, (2, 1), {FORMAT_HEADER: HEADER}, b"\x93" + key, b"\x82" + value),
        RawRecord(PARTITION, 1, (2, 1), {FORMAT_HEADER: HEADER}, group_key_of("move"), value),
        RawRecord(PARTITION, 1, (2, 1), {FORMAT_HEADER: HEADER}, key_of(), value),
    ):
        decode_record(record, PARTITIONS)


def test_a_move_of_ours_is_read_whole() -> None:
    move = Move("1,100%", 3, 1, since_ms=APPENDED_MS + CLOCK_SKEW_MS, settled_ms=5)
    event = read(group_key_of("move"), msgspec.msgpack.encode(GroupRecord(2, move=move)))
    assert isinstance(event, GroupRecordRead)
    assert event.stored.record.move == move
