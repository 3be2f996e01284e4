"""What a writer of the member log's topic can do, by the kind of record: the table in docs/explanation/security.md.

Each record is forged as bytes, goes the way of every record that is read, and its member's client goes on calling.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode
from proxy.member_log.log_events import GroupRecordRead, RecordIgnored, RecordRead, RecordUnknown
from proxy.member_log.record_decoding import LOG_APPEND_TIME, RawRecord, decode_record
from tests.translation.admission.test_serving import KEY, served_member
from tests.translation.answers import A, described, member
from tests.translation.bench import GROUP
from tests.translation.joining.test_resumption import group_of_a
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import Connection
from translation.member_log.formats import FORMAT_HEADER
from translation.member_log.group_log import UNKNOWN_MS
from translation.member_log.group_mac import GroupMac
from translation.member_log.group_records import (
    HOST,
    MEND,
    MOVE,
    PROOF,
    GroupKey,
    GroupRecord,
    Host,
    Mend,
    Move,
    Phase,
    Proof,
    Slot,
    encode_group_key,
    encode_group_value,
    report_name,
)
from translation.member_log.member_log import MemberLog
from translation.member_log.records import (
    PROBE,
    Kind,
    MemberKey,
    MemberRecord,
    Writer,
    encode_key,
    encode_value,
)
from translation.member_log.settings import FleetSettings
from translation.member_log.signals import Report, Window
from translation.settings import TranslatorSettings

SECURITY = Path(__file__).parents[3] / "docs" / "explanation" / "security.md"
SOMEBODY = Writer(b"somebody")
HEADERS: dict[str, object] = {FORMAT_HEADER: b"\x01"}
SESSION_S = int(TranslatorSettings().broker_session_s)
GOES_ON = {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID}
"""What a client makes of it: it goes on, or joins again."""

MEMBER_RECORDS = {
    "served": encode_value(MemberRecord(Kind.SERVED, 0)),
    "expiring": encode_value(MemberRecord(Kind.EXPIRING, 0)),
    "ended": encode_value(MemberRecord(Kind.ENDED, 0)),
    "relayed": encode_value(MemberRecord(Kind.RELAYED, 0)),
    "of a later format": b"\xff",
    "probe": None,
    "none of the member log": b"\xff",
}
GROUP_RECORDS = {
    "move": (MOVE, GroupRecord(1, move=Move("1,100%", phase=Phase.MOVING, step=1, approved=2))),
    "slot": ("slot 1", GroupRecord(1, slot=Slot(A, begun=True))),
    "report": (report_name(SOMEBODY), GroupRecord(1, report=Report((Window(ms=10_000, commit_errors=9),)))),
    "proof": (PROOF, GroupRecord(1, proof=Proof(clean_ms=10**9))),
    "mend": (MEND, GroupRecord(1, mend=Mend(tries=5))),
    "host": (HOST, GroupRecord(1, host=Host())),
}


def rows() -> dict[str, str]:
    """The table: the rest of each row by its first cell."""
    text = SECURITY.read_text()
    table = text[text.index("<!-- forged records -->") : text.index("<!-- /forged records -->")]
    found = (re.fullmatch(r"\| (.+?) \|(.+)\|", line) for line in table.splitlines()[3:])
    return {row[1].strip("`"): row[2] for row in found if row is not None}


def test_the_table_has_every_kind_of_record() -> None:
    assert set(rows()) == MEMBER_RECORDS.keys() | GROUP_RECORDS.keys()


def forge(log: SharedLog, kind: str, **fields: object) -> None:
    """Somebody writes a record of the member, as bytes, and with the version that wins; everybody reads it."""
    offset, value = len(log.records), MEMBER_RECORDS[kind]
    key = encode_key(PROBE if kind == "probe" else KEY, SOMEBODY)
    headers = HEADERS
    if kind == "of a later format":
        headers = {FORMAT_HEADER: b"\x63"}
    elif value not in (None, b"\xff"):
        value = msgspec.msgpack.encode(msgspec.msgpack.decode(value) | {"version": offset} | fields)
    event = decode_record(
        RawRecord(0, offset, (LOG_APPEND_TIME, int(log.now * 1000)), headers, key, value), 1
    )
    if isinstance(event, RecordIgnored):
        assert kind == "none of the member log"
        return
    assert isinstance(event, RecordRead | RecordUnknown)
    record = None if event.stored is None else event.stored.record
    assert isinstance(event.key, MemberKey)
    log.records.append((event.key, SOMEBODY, record))
    for replica in log.replicas:
        replica.read()
    log.settle()


def answer_all(one: Replica) -> None:
    """The broker has the member, and answers whatever it is asked."""
    while one.calls:
        call = one.calls[0]
        if call.api_key == ApiKey.METADATA:
            one.reply_names()
        elif call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE:
            one.reply(described(member(A, epoch=1)), call)
        elif call.message.member_epoch < 0:
            one.reply(one.heartbeat_answer(call.message.member_epoch), call)
        else:
            one.reply(one.heartbeat_answer(1, orders=(0, 1)), call)


def refused_for(log: SharedLog, one: Replica, connection: Connection) -> int:
    """For how many seconds the client's Heartbeats are refused, one after another, until it goes on or joins again."""
    began = log.now
    for _ in range(3 * SESSION_S):
        request = one.heartbeat(connection, A, 1)
        answer_all(one)
        for _ in range(5):
            if request not in one.answers and request not in one.forwarded:
                log.advance(1.0)
                answer_all(one)
        if request in one.forwarded:
            return int(log.now - began)  # the broker answers it: it has no such classic member
        if one.error(request) in GOES_ON:
            return int(log.now - began)
        log.advance(1.0)
        answer_all(one)
    raise AssertionError("its client neither goes on nor joins again")


def joins_anew(one: Replica) -> None:
    connection = one.connect()
    member_id = one.answers[one.join(connection, "")].member_id
    join = one.join(connection, member_id)
    answer_all(one)
    assert one.error(join) == ErrorCode.NONE


@pytest.mark.parametrize("kind", MEMBER_RECORDS)
def test_a_forged_record_of_a_member_costs_it_a_rejoin_at_most(kind: str) -> None:
    log = SharedLog()
    one = log.replica()
    connection = served_member(one)
    forge(log, kind)
    assert refused_for(log, one, connection) == 0
    if kind not in {"probe", "none of the member log"}:
        assert "rejoin" in rows()[kind]
    joins_anew(one)


@pytest.mark.parametrize("kind", MEMBER_RECORDS)
def test_one_who_goes_on_forging_has_a_client_s_calls_refused_for_the_broker_s_session_at_most(
    kind: str,
) -> None:
    """Before each call, and each time that the replica claims the member."""
    goes_on_forging(kind)


def goes_on_forging(kind: str, **fields: object) -> None:
    log = SharedLog()
    one = log.replica()
    connection = served_member(one)
    write = log.write

    def write_first(record: object) -> None:
        forge_unread(log, kind, **fields)
        write(record)  # type: ignore[arg-type]

    log.write = write_first  # type: ignore[method-assign]
    forge(log, kind, **fields)
    assert refused_for(log, one, connection) <= SESSION_S + 3
    log.write = write  # type: ignore[method-assign]
    joins_anew(one)


@pytest.mark.parametrize("session_timeout_ms", [-(2**31), -1, 0, 10, 2**31 - 1])
def test_no_forged_session_timeout_has_calls_refused_for_ever(session_timeout_ms: int) -> None:
    log = SharedLog()
    one = log.replica()
    connection = served_member(one)
    forge(log, "served", session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=session_timeout_ms)
    assert refused_for(log, one, connection) == 0


def test_a_forged_session_timeout_keeps_no_silent_client_for_longer_than_a_client_may_ask_for() -> None:
    """The rest of the record is the member's own, so its client goes on without a rejoin."""
    log = SharedLog()
    one = log.replica(resumes=True)
    connection = served_member(one)
    own = log.records[-1][2]
    assert isinstance(own, MemberRecord)
    assert own.snapshot
    copied = {"snapshot": own.snapshot, "generation": own.generation}
    forge(log, "served", session_timeout_ms=2**31 - 1, rebalance_timeout_ms=2**31 - 1, **copied)
    heartbeat = one.heartbeat(connection, A, 1)
    one.beat(1)
    one.reply(group_of_a())
    answer_all(one)
    assert one.error(heartbeat) == ErrorCode.NONE
    for _ in range(31):
        log.advance(60.0)
        answer_all(one)
    assert log.kinds(A)[-2:] == [Kind.EXPIRING, Kind.ENDED]


def forge_unread(log: SharedLog, kind: str, **fields: Any) -> None:
    """The same, but it is read with the next record."""
    value = MEMBER_RECORDS[kind]
    if kind in {"served", "expiring", "ended", "relayed"} and value is not None:
        record = msgspec.structs.replace(
            msgspec.msgpack.decode(value, type=MemberRecord), **({"version": len(log.records)} | fields)
        )
        log.records.append((KEY, SOMEBODY, record))


@pytest.mark.parametrize("kind", GROUP_RECORDS)
@pytest.mark.parametrize("has_key", [True, False])
def test_a_forged_record_of_a_group_is_nothing_with_a_key(kind: str, has_key: bool) -> None:
    name, record = GROUP_RECORDS[kind]
    log = MemberLog(
        FleetSettings(partitions=1), Writer(b"own"), 0.0, GroupMac(b"k" * 32) if has_key else None
    )
    value = encode_group_value(record)
    raw = RawRecord(
        0, 5, (LOG_APPEND_TIME, 10**9), HEADERS, encode_group_key(GroupKey(GROUP, name), SOMEBODY), value
    )
    event = decode_record(raw, 1)
    assert isinstance(event, GroupRecordRead)
    assert log.read_group(0, event.key, event.stored, event.value) is not has_key
    stored = log.groups.of_group(GROUP).get(name)
    if not has_key:
        assert stored is not None
        assert stored.record == record
    elif kind == "move":
        assert stored is not None
        assert stored.record.move is not None
        assert (stored.record.move.phase, stored.record.move.approved) == (Phase.HELD, 0)
    else:
        assert stored is None


def test_a_group_record_of_a_later_format_holds_the_moves_of_its_group_for_as_long_as_the_page_says() -> None:
    assert f"{UNKNOWN_MS // 60_000} minutes" in SECURITY.read_text()
