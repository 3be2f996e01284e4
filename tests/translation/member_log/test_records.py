"""The records of the member log as bytes."""

import msgspec
import pytest

from translation.member_log.records import (
    LONGEST_NAME,
    LONGEST_VALUE,
    InvalidRecord,
    Kind,
    MemberRecord,
    Writer,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    member_key,
    partition_of,
)

WRITER = Writer(bytes(range(16)))


def test_a_key_says_member_and_writer() -> None:
    key = member_key("payments", "epochgate-1")
    assert decode_key(encode_key(key, WRITER)) == (key, WRITER)


def test_a_value_comes_back_and_leaves_out_what_is_usual() -> None:
    record = MemberRecord(Kind.SERVED, version=101, server="pod-0", session_timeout_ms=10_000)
    assert decode_value(encode_value(record)) == record
    assert encode_value(MemberRecord(Kind.ENDED, 7)) == msgspec.msgpack.encode(
        {"kind": "ended", "version": 7}
    )


def test_a_field_of_a_later_version_is_ignored() -> None:
    data = msgspec.msgpack.encode({"kind": "served", "version": 3, "hosted": {"epoch": 4}})
    assert decode_value(data) == MemberRecord(Kind.SERVED, 3)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"null", msgspec.msgpack.encode({"kind": "parked", "version": 1})]
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode_value(data)
    with pytest.raises(InvalidRecord):
        decode_key(data)


def test_long_ids_are_hashed_and_stay_different() -> None:
    first, second = (member_key("g" * 1000 + end, "m" * 1000 + end) for end in "ab")
    assert first != second
    assert all(len(name) <= LONGEST_NAME for name in (*first, *second))
    assert len(encode_key(first, WRITER)) < 200


def test_all_members_of_a_group_have_one_partition_and_groups_spread() -> None:
    assert len({partition_of(member_key("g", f"m{number}"), 16) for number in range(100)}) == 1
    assert len({partition_of(member_key(f"g{number}", "m"), 16) for number in range(500)}) == 16


def test_partitions_are_those_of_crc32c() -> None:
    """Of which the check value for 123456789 is 0xE3069283; other builds have to agree on it."""
    assert partition_of(member_key("123456789", "m"), 1 << 32) == 0xE3069283


def test_a_record_that_brokers_may_refuse_is_refused_here() -> None:
    with pytest.raises(InvalidRecord, match=str(LONGEST_VALUE)):
        encode_value(MemberRecord(Kind.SERVED, 1, server="x" * LONGEST_VALUE))
