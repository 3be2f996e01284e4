"""Every field of every kind of record, forged with the least and the greatest value that a reader accepts.

The table in docs/explanation/security.md says what that may cost, and these check it with a clock that can pass hours.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from proxy.member_log.log_events import GroupRecordRead
from proxy.member_log.record_decoding import LOG_APPEND_TIME, RawRecord, decode_record
from tests.proxy.member_log.test_forged_records import (
    GOES_ON,
    HEADERS,
    SESSION_S,
    SOMEBODY,
    answer_all,
    forge,
    goes_on_forging,
    joins_anew,
    refused_for,
    rows,
)
from tests.translation.admission.test_serving import served_member
from tests.translation.answers import A
from tests.translation.bench import GROUP
from tests.translation.joining.test_resumption import OWN, stable_at
from tests.translation.joining.test_resumption import forge as forge_snapshot
from tests.translation.member_log.bench import Replica, SharedLog
from translation.member_log.group_records import (
    HOST,
    MEND,
    MOVE,
    PROOF,
    GroupKey,
    Host,
    Mend,
    Move,
    Proof,
    Slot,
    encode_group_key,
    report_name,
)
from translation.member_log.records import Kind, MemberRecord
from translation.member_log.signals import Report
from translation.member_log.snapshots import Snapshot
from translation.policy.gates import AbortIf
from translation.policy.policy import Approval, Mode, Policy, Rule

HOUR_S = 3_600
TEXT = "x" * 200


def extremes(kind: types.Type) -> Iterator[Any]:  # noqa: C901 - a branch for each kind
    """The least and the greatest values of a type, and those between that are of another branch."""
    match kind:
        case types.IntType(ge=ge, le=le):
            yield from (-(2**63) if ge is None else ge, 2**63 - 1 if le is None else le)
        case types.FloatType(ge=ge, le=le):
            yield from (ge, le)
        case types.StrType(max_length=most):
            yield from ("", "x" * min(most or 200, 200))
        case types.BytesType(min_length=least, max_length=most):
            yield from (bytes(least or 0), b"\x91" * (most or 200))
        case types.BoolType():
            yield from (False, True)
        case types.EnumType(cls=cls):
            yield from cls
        case types.LiteralType(values=values):
            yield from values
        case types.NoneType():
            yield None
        case types.UnionType(types=several):
            for one in several:
                yield from extremes(one)
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            yield []
            yield from ([one] for one in extremes(item))
        case types.TupleType(item_types=items):
            yield from zip(*(list(extremes(item))[:2] for item in items), strict=True)
        case types.DictType(value_type=value):
            yield {}
            yield from ({"lag": one} for one in extremes(value))
        case types.StructType(cls=cls, fields=fields):
            least = {field.encode_name: next(extremes(field.type)) for field in fields}
            for changed in (least, *(least | {name: value} for name, value in fields_of(cls))):
                yield list(changed.values()) if kind.array_like else changed
        case _:
            raise AssertionError(f"{kind} has no extremes here")


def fields_of(struct: type) -> list[tuple[str, Any]]:
    """Each field of a struct with each of its extremes."""
    described = types.type_info(struct)
    assert isinstance(described, types.StructType)
    return [(field.encode_name, value) for field in described.fields for value in extremes(field.type)]


def named(value: Any) -> str:
    return repr(value)[:40]


def seconds(kind: str) -> int:
    """For how long calls may be refused, as the page has it."""
    found = re.search(r"refused \([A-Z_]+\) for (\d+) s", rows()[kind])
    return int(found[1]) if found else 0


def test_the_page_has_the_time_that_the_code_has() -> None:
    assert seconds(Kind.SERVED) == SESSION_S


# -- a member ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(("name", "value"), fields_of(MemberRecord), ids=named)
def test_each_field_of_a_member_costs_a_rejoin_at_most(kind: Kind, name: str, value: object) -> None:
    log = SharedLog()
    one = log.replica(resumes=True)
    connection = served_member(one)
    forge(log, kind, **({name: value} if name not in ("kind", "version") else {}))
    assert refused_for(log, one, connection) <= seconds(kind)
    calls_on(log, one)
    evicted = [call.message.member_id for call in one.calls if getattr(call.message, "member_epoch", 0) < 0]
    assert set(evicted) <= {A}
    joins_anew(one)


@pytest.mark.parametrize(("name", "value"), fields_of(MemberRecord), ids=named)
def test_one_who_goes_on_forging_a_field_has_calls_refused_for_the_broker_s_session_at_most(
    name: str, value: object
) -> None:
    if name not in ("kind", "version"):
        goes_on_forging(Kind.SERVED, **{name: value})


def calls_on(log: SharedLog, one: Replica) -> None:
    """An hour passes in which the broker answers; whoever is silent is gone by then."""
    for _ in range(HOUR_S // 60):
        log.advance(60.0)
        answer_all(one)


@pytest.mark.parametrize("call", ["heartbeat", "sync"])
@pytest.mark.parametrize(("name", "value"), fields_of(Snapshot), ids=named)
def test_each_field_of_a_snapshot_costs_a_rejoin_at_most(name: str, value: object, call: str) -> None:
    log = SharedLog()
    one, other = log.replica(resumes=True), log.replica(resumes=True)
    stable_at(one)
    forge_snapshot(log, msgspec.msgpack.encode(list((OWN | {name: value}).values())))
    connection = other.connect()
    sends = other.heartbeat if call == "heartbeat" else other.sync
    request = sends(connection, A, 1)
    answer_all(other)
    assert other.error(request) in GOES_ON
    assert refused_for(log, other, connection) == 0
    calls_on(log, other)
    joins_anew(other)


# -- a group -----------------------------------------------------------------------------------------------------------

STEPS = Policy(
    rules=(
        Rule(
            group=GROUP,
            mode=Mode.TRANSLATE,
            steps=(1, "100%"),
            hold_s=60,
            approval=Approval.REQUIRED,
            abort_if=AbortIf(),
        ),
    )
)
OF_GROUP: dict[str, tuple[str, type, dict[str, Any]]] = {
    "move": (MOVE, Move, {"steps": "1, 100%"}),
    "slot": ("slot 1", Slot, {}),
    "report": (report_name(SOMEBODY), Report, {}),
    "proof": (PROOF, Proof, {}),
    "mend": (MEND, Mend, {}),
    "host": (HOST, Host, {}),
}
FORGED = [
    (kind, name, value) for kind, (_, struct, _) in OF_GROUP.items() for name, value in fields_of(struct)
]


def forge_of_group(log: SharedLog, kind: str, fields: dict[str, Any]) -> bool:
    """Somebody writes a record of the group that wins; return whether it is one: its times may be of the future."""
    offset = len(log.records)
    value = msgspec.msgpack.encode({"version": offset, kind: OF_GROUP[kind][2] | fields})
    key = encode_group_key(GroupKey(GROUP, OF_GROUP[kind][0]), SOMEBODY)
    event = decode_record(
        RawRecord(0, offset, (LOG_APPEND_TIME, int(log.now * 1000)), HEADERS, key, value), 1
    )
    if not isinstance(event, GroupRecordRead):
        return False
    log.records.append((event.key, SOMEBODY, event.stored.record))
    for replica in log.replicas:
        replica.read()
    log.settle()
    return True


@pytest.mark.parametrize(("kind", "name", "value"), FORGED, ids=named)
def test_each_field_of_a_group_s_record_leaves_its_members_alone_and_can_be_written_over(
    kind: str, name: str, value: object
) -> None:
    """Its member goes on calling, what is shown of the move can be shown, and what a replica writes next counts."""
    log = SharedLog()
    one = log.replica()
    connection = served_member(one)
    one._do(one.translator.set_policy(log.now, STEPS))
    answer_all(one)
    if not forge_of_group(log, kind, {name: value}):
        assert isinstance(value, int | dict | list), "a time of the future"
        return
    for _ in range(30):
        one.translator.rollout.move_of(GROUP)
        one.translator.rollout.waves()
        one.translator.rollout.moves_by_phase()
        heartbeat = one.heartbeat(connection, A, 1)
        answer_all(one)
        assert heartbeat in one.forwarded or one.error(heartbeat) in GOES_ON
        log.advance(10.0)
        answer_all(one)
    ours = {kind: msgspec.convert(OF_GROUP[kind][2], OF_GROUP[kind][1])}
    key = one.log.groups.write(GROUP, OF_GROUP[kind][0], log.now, **ours)
    log.settle()
    assert key is not None
    assert one.log.groups.is_own(GROUP, OF_GROUP[kind][0])
