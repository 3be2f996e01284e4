"""Replicas that write different formats of records, as in a rolling upgrade and on the way back."""

import msgspec
import pytest

from tests.translation.member_log.replicas import plays
from tests.translation.member_log.test_member_log import KEY, THEIRS, A, Bench
from translation.member_log.formats import DEFAULT_FORMAT, FORMATS, Format, format_of
from translation.member_log.outputs import JoinTerms
from translation.member_log.records import Ignored, InvalidRecord, Kind, MemberRecord

EVERYTHING = MemberRecord(
    Kind.SERVED,
    version=101,
    first=True,
    server="pod-0",
    instance_id="instance",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    generation=4,
    snapshot=b"snapshot",
)
OF_FORMAT_1 = bytes.fromhex(
    "89a46b696e64a6736572766564a776657273696f6e65a56669727374c3a6736572766572a5706f642d30ab696e7374616e63655f6964a8"
    "696e7374616e6365b273657373696f6e5f74696d656f75745f6d73cd2710b4726562616c616e63655f74696d656f75745f6d73cdea60aa67"
    "656e65726174696f6e04a8736e617073686f74c408736e617073686f74"
)
"""What the first release writes. Never to be changed: such records are in topics."""


def plant_second_format(monkeypatch: pytest.MonkeyPatch) -> Format:
    """Make this release one that knows format 2, which looks different and can't say the timeouts."""

    def encode(record: MemberRecord) -> bytes:
        shorter = msgspec.structs.replace(record, session_timeout_ms=45_000, rebalance_timeout_ms=300_000)
        return b"2" + msgspec.msgpack.encode(msgspec.structs.astuple(shorter))

    def decode(data: bytes) -> MemberRecord:
        assert data[:1] == b"2"
        kind, *rest = msgspec.msgpack.decode(data[1:])
        return MemberRecord(Kind(kind), *rest)

    second = Format(2, encode, decode)
    monkeypatch.setitem(FORMATS, 2, second)
    return second


def test_format_1_is_what_it_always_was() -> None:
    assert FORMATS[1].encode(EVERYTHING) == OF_FORMAT_1
    assert FORMATS[1].decode(OF_FORMAT_1) == EVERYTHING
    assert FORMATS[1].header == b"\x01"


def test_what_is_written_can_be_read() -> None:
    assert DEFAULT_FORMAT in FORMATS
    assert all(number == one.number == format_of(one.header).number for number, one in FORMATS.items())


@pytest.mark.parametrize("header", [None, "1", b"", b"\x01\x00", b"\x00", b"x" * 1_000])
def test_what_is_no_format_is_none_of_the_log(header: object) -> None:
    with pytest.raises(InvalidRecord, match=r"no format .*; this release reads 1$") as refused:
        format_of(header)
    assert refused.value.reason is Ignored.FORMAT


def test_a_format_of_a_later_release_is_not_known() -> None:
    assert format_of(b"\x02") is None


def test_a_takeover_leaves_out_a_field_that_is_not_known_and_writes_the_snapshot_on_as_it_is() -> None:
    """Who wrote the field finds its default when it takes the member over again, and has to be content with it."""
    of_later_release = msgspec.msgpack.decode(OF_FORMAT_1) | {
        "hosted": {"epoch": 4},
        "snapshot": msgspec.msgpack.encode([4, "and an element more"]),
    }
    bench = Bench().ready()
    bench.read(FORMATS[1].decode(msgspec.msgpack.encode(of_later_release)), THEIRS)
    bench.log.claim(KEY, A, bench.now, JoinTerms(10_000, 60_000, "instance"))
    bench.take()
    (written,) = map(msgspec.msgpack.decode, bench.bytes_written)
    assert written.pop("version") == bench.offset
    assert "hosted" not in written
    kept = ("kind", "instance_id", "session_timeout_ms", "rebalance_timeout_ms", "generation", "snapshot")
    assert {name: written[name] for name in kept} == {name: of_later_release[name] for name in kept}


def test_a_record_is_resolved_though_its_format_can_not_say_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant_second_format(monkeypatch)
    bench = Bench(record_format=2).ready()
    bench.log.claim(KEY, A, bench.now, JoinTerms(10_000, 60_000))
    bench.take()
    assert bench.read_back().session_timeout_ms == 45_000
    assert bench.log.unresolved() == 0
    assert bench.written == [], "it is not written again to say more"


@pytest.mark.parametrize("formats", [(1, 2), (2, 1), (2,)], ids=["upgrade", "the way back", "afterwards"])
def test_replicas_of_two_formats_are_one_fleet(
    formats: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process that starts, also after a crash, writes the other format than the one before."""
    plant_second_format(monkeypatch)
    failed = {seed: story for seed in range(25) if (story := plays(seed, formats))}
    assert not failed


def test_a_release_that_misses_what_a_format_can_not_say_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_second_format(monkeypatch)
    monkeypatch.setattr(Format, "as_read", lambda _self, record: record)
    assert any(plays(seed, (2,)) for seed in range(40))
