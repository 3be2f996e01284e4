"""What others write into the member log's topic, into a snapshot and as a hook's answer; for :mod:`tests.fuzz.targets`.

Bounds are small here, so that a few records reach them.
"""

import json
from collections.abc import Iterable, Iterator

from proxy.control.hook_caller import _veto_in
from proxy.member_log.log_events import GroupRecordRead, RecordIgnored, RecordRead, RecordUnknown
from proxy.member_log.record_decoding import LOG_APPEND_TIME, RawRecord, decode_record
from translation.member_log.formats import FORMAT_HEADER
from translation.member_log.group_mac import GroupMac
from translation.member_log.group_records import (
    MOVE,
    GroupKey,
    GroupRecord,
    Move,
    Phase,
    Slot,
    encode_group_key,
    encode_group_value,
    slot_name,
)
from translation.member_log.member_log import MemberLog
from translation.member_log.records import (
    PROBE,
    Kind,
    MemberRecord,
    Writer,
    encode_key,
    encode_value,
    member_key,
    partition_of,
)
from translation.member_log.replicas import REPLICA_HEADER, Replica, Replicas, replica_header
from translation.member_log.settings import FleetSettings
from translation.member_log.snapshots import (
    LONGEST_SNAPSHOT,
    NO_SNAPSHOT,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)

OWN, THEIRS = Writer(b"own writer, 16 b"), Writer(b"their writer 16b")
GROUP, MEMBER = "payments", "epochgate-served-here"
_PARTITIONS, _MOST = 2, 6
_SECRET = b"k" * 32
_BEGAN_MS = 1_000_000_000_000
_SETTINGS = FleetSettings(
    partitions=_PARTITIONS, most_members=_MOST, members_of_group=_MOST // 2, max_bytes=20_000
)


def read_log(chunks: Iterable[bytes]) -> None:
    """A replica that serves a member reads records that begin with a byte of flags, the length of the key, and the key.

    Whatever they are, the log goes on, keeps no more than it has room for, and no forged move lets anybody move.
    """
    log = _serving()
    replicas = Replicas()
    key = member_key(GROUP, MEMBER)
    for offset, chunk in enumerate(chunks, 10):
        if len(chunk) < 2:
            continue
        now = offset * 0.5
        event = decode_record(_raw(chunk, offset), _PARTITIONS)
        match event:
            case RecordIgnored(partition, at, _, why, _):
                if len(why) > 300:
                    raise AssertionError("the reason has no bound")
                log.read_to(partition, at + 1, now)
            case RecordUnknown(partition, unknown, stored, at, appended_ms, _):
                if isinstance(unknown, GroupKey):
                    log.read_unknown_group(partition, unknown, at, appended_ms)
                elif stored is not None:
                    log.read(partition, unknown, stored, now)
            case RecordRead(partition, _, writer, None, at, appended_ms, replica):
                replicas.heard(writer, replica, appended_ms)
                log.read_probe(partition, writer, at, appended_ms, now)
            case RecordRead(partition, member, _, stored) if stored is not None:
                log.read(partition, member, stored, now)
            case GroupRecordRead(partition, group, record, value):
                log.read_group(partition, group, record, value)
        log.claim(key, offset % 3, now)
        log.verdict(key, 1, now)
        log.handle_time(now)
        log.outputs()
        _check(log)


def _serving() -> MemberLog:
    """The log of a replica that is ready, and serves a member."""
    log = MemberLog(_SETTINGS, OWN, 0.0, GroupMac(_SECRET))
    for partition in range(_PARTITIONS):
        log.replay_to(partition, 0, 0.0)
        log.outputs()
        log.read_probe(partition, OWN, 1, _BEGAN_MS, 0.0)
    log.claim(member_key(GROUP, MEMBER), 1, 0.0, issued=True)
    log.outputs()
    return log


def _raw(chunk: bytes, offset: int) -> RawRecord:
    flags, size = chunk[0], chunk[1]
    key, value = chunk[2 : 2 + size], chunk[2 + size :]
    headers: dict[str, object] = {FORMAT_HEADER: bytes((flags >> 2 & 3,))}
    if flags & 16:
        headers[REPLICA_HEADER] = value
    if flags & 32:
        headers = {}
    return RawRecord(
        flags & 1,
        offset,
        (1 if flags & 64 else LOG_APPEND_TIME, _BEGAN_MS + offset * (10**9 if flags & 128 else 1)),
        headers,
        key,
        None if flags & 2 else value,
    )


def _check(log: MemberLog) -> None:
    kept = sum(len(log.counted(partition)) for partition in range(_PARTITIONS))
    if kept > _MOST or log.groups.room.records > _MOST:
        raise AssertionError(f"{kept} members and {log.groups.room.records} records of groups are kept")
    if any(move.is_moving or move.approved for _, move in log.groups.moves()):
        raise AssertionError("a move that nobody with the key has written goes on")


def read_snapshot(data: bytes) -> None:
    """It is one that can be written again, or none."""
    snapshot = decode_snapshot(data)
    if snapshot is not None:
        again = encode_snapshot(snapshot)
        if again != NO_SNAPSHOT and decode_snapshot(again) != snapshot:
            raise AssertionError(f"{snapshot!r} is read back as another one")


def read_answer(data: bytes) -> None:
    """A hook agrees only by an empty body, or by JSON that Python's own decoder reads as agreement too."""
    if _veto_in(data) is None and data.strip():
        word = json.loads(data.decode())
        if not isinstance(word, dict) or word["proceed"] is not True:
            raise AssertionError(f"{data!r} counts as agreement")


def records() -> Iterator[bytes]:
    """Records as replicas write them, each with a length before it: whole logs."""
    parts = [
        (encode_key(PROBE, THEIRS), None),
        *((encode_key(member_key(GROUP, MEMBER), THEIRS), encode_value(MemberRecord(kind, 5))) for kind in Kind),
        (encode_key(member_key("other", "m"), THEIRS), encode_value(_full())),
        *(
            (encode_group_key(GroupKey(GROUP, name), THEIRS), encode_group_value(record))
            for name, record in (
                (MOVE, GroupRecord(5, move=Move("1,100%", phase=Phase.MOVING, approved=2))),
                (slot_name(1), GroupRecord(5, slot=Slot("epochgate-1", begun=True))),
            )
        ),
    ]  # fmt: skip
    group = partition_of(member_key(GROUP, ""), _PARTITIONS)
    chunks = [
        bytes((4 | group | (16 if value is None else 0), len(key))) + key + (value or _HEADER)
        for key, value in parts
    ]
    yield from (_sized(chunk) for chunk in chunks)
    yield b"".join(map(_sized, chunks))
    yield b"".join(map(_sized, [bytes((chunk[0] ^ 1,)) + chunk[1:] for chunk in chunks]))


_HEADER = replica_header(Replica(THEIRS, "pod-1"))


def _sized(chunk: bytes) -> bytes:
    return len(chunk).to_bytes(2) + chunk


def _full() -> MemberRecord:
    return MemberRecord(
        Kind.SERVED, 5, first=True, server="pod", instance_id="i", generation=7, snapshot=next(snapshots())
    )


def snapshots() -> Iterator[bytes]:
    """Snapshots as replicas write them."""
    snapshot = Snapshot(
        generation=3,
        member_epoch=7,
        assignment=((bytes(16), (0, 1, 2)),),
        subscription=("topic",),
        protocol_type="consumer",
        protocol_name="range",
        embedded_version=1,
        cooperative=False,
        mapped_assignor="uniform",
        assignor="uniform",
        rack="a",
    )
    yield encode_snapshot(snapshot)
    yield b"\x91" * LONGEST_SNAPSHOT


def answers() -> Iterator[bytes]:
    """Answers of hooks."""
    yield from (b"", b'{"proceed": true}', b'{"proceed": false, "why": "no"}', b'{"x":' + b"[" * 2_000)
