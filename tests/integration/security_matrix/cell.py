"""Plays one call at one group, and says what the caller was answered and what became of the members."""

import dataclasses
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription
from kio.serial import entity_reader
from support.broker import Kafka
from support.raw import RawConnection

from .callers import OWNER, Caller
from .calls import Call
from .members import REBALANCE, Members, classic_members, name_of, native_members, partitions_in
from .target import OWN_PARTITION, WATCHED_PARTITION, message, topic_of

ANSWER_S = 15.0
"""How long a caller waits, and a member for what is answered at once.

A new member is answered once the others have given up what it gets. They hear of that at a heartbeat, which is up to
5 s away, and a busy machine adds seconds.
"""
AFTERWARDS_S = 2.5
"""How long the members are watched then: longer than the broker takes to assign anew, which it does each second."""
LOOK_S = 0.25
TRANSLATED, CLASSIC, NATIVE = KINDS = ("translate", "classic", "native")
"""How the members came: through the proxy under `translate`, or straight to Kafka in either protocol."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call. No effect is the empty text."""

    answer: str
    effect: str

    def __str__(self) -> str:
        return f"{self.answer}; {self.effect}" if self.effect else self.answer


@dataclass(frozen=True)
class Place:
    """Where members and callers connect, and what else a cell needs."""

    kind: str
    connect: Callable[[str | None], RawConnection]
    """Connects as this user, or without a login. Raises ConnectionError or ssl.SSLError where that is refused."""
    kafka: Kafka
    """As a super user sees it, straight at the broker."""
    topic_ids: Mapping[str, uuid.UUID]


@dataclass(frozen=True)
class MemberPicture:
    """A member at the broker."""

    instance_id: str | None
    topics: frozenset[str]
    partitions: frozenset[int]
    epoch: int | None = None


@dataclass(frozen=True)
class Picture:
    """A group at the broker, by member id."""

    group_type: str
    members: Mapping[str, MemberPicture]
    offset: int
    """What is committed for the partition that callers commit for."""


def play(place: Place, caller: Caller, call: Call, group: str) -> Outcome:
    """One cell, on one way."""
    topic = topic_of(caller.key)
    topic_id = place.topic_ids[topic]
    if place.kind == NATIVE:
        members = native_members(lambda: place.connect(OWNER), group, topic, topic_id)
    else:
        members = classic_members(lambda: place.connect(OWNER), group, topic)
    try:
        members.join()
        committed = members.by_role["static"].commit(WATCHED_PARTITION)
        assert committed == "NONE", committed
        before = look(place.kafka, group, topic)
        epochs = {key: one.epoch for key, one in before.members.items() if one.epoch is not None}
        answer = _call(place, caller, call, members.as_target(caller.key, topic_id, epochs), members)
        _watch(members)
        return Outcome(answer, effect_of(before, look(place.kafka, group, topic), members))
    finally:
        members.close()


def _call(place: Place, caller: Caller, call: Call, target: Any, members: Members) -> str:
    script = call.script(target)
    request = next(script)
    try:
        connection = place.connect(caller.user)
    except (ConnectionError, ssl.SSLError):
        return "closed"
    with connection:
        while True:
            connection.send(request)
            deadline = time.monotonic() + ANSWER_S
            while not connection.has_answer(LOOK_S):
                members.step()
                if time.monotonic() > deadline:
                    return "no answer"
            try:
                answer = connection.receive(request)
            except ConnectionError:
                return "closed"
            try:
                request = script.send(answer)
            except StopIteration:
                return answer_of(answer, target.group)


def _watch(members: Members) -> None:
    began = time.monotonic()
    while (passed := time.monotonic() - began) < AFTERWARDS_S or (not members.settled and passed < ANSWER_S):
        members.step()
        time.sleep(LOOK_S)


# -- what is seen --------------------------------------------------------------------------------------------


def answer_of(answer: Any, group: str) -> str:
    """All error codes in an answer, and what it tells beside."""
    codes = [code for code in _codes(answer) if code != 0] or [0]
    said = "/".join(dict.fromkeys(name_of(code) for code in codes))
    told = _told(answer, group) if codes == [0] else ""
    return f"{said}, {told}" if told else said


def _codes(value: Any) -> list[int]:
    if isinstance(value, tuple):
        return [code for one in value for code in _codes(one)]
    if not dataclasses.is_dataclass(value):
        return []
    codes = [int(value.error_code)] if hasattr(value, "error_code") else []
    return codes + [
        code for field in dataclasses.fields(value) for code in _codes(getattr(value, field.name))
    ]


def _told(answer: Any, group: str) -> str:
    kind = type(answer).__name__
    if kind == "ListGroupsResponse":
        return "listed" if group in {one.group_id for one in answer.groups} else "not listed"
    if kind in {"DescribeGroupsResponse", "ConsumerGroupDescribeResponse"}:
        return f"{answer.groups[0].group_state}, {len(answer.groups[0].members)} members"
    if kind == "OffsetFetchResponse":
        (of_group,) = getattr(answer, "groups", (answer,))
        offsets = [one.committed_offset for topic in of_group.topics for one in topic.partitions]
        return f"offset {offsets[0]}" if offsets else "no offset"
    return ""


def look(kafka: Kafka, group: str, topic: str) -> Picture:
    """The group at the broker."""
    offset = _offset(kafka, group, topic)
    seen = kafka.describe(group)
    if seen is not None:
        return Picture(
            "consumer",
            {
                one.member_id: MemberPicture(
                    one.instance_id,
                    one.subscribed_topics,
                    frozenset().union(*one.assignment.values()),
                    one.member_epoch,
                )
                for one in seen.members
            },
            offset,
        )
    classic = kafka.describe_classic(group)
    return Picture(
        "classic",
        {
            one.member_id: MemberPicture(
                one.group_instance_id, _topics_in(one.member_metadata), partitions_in(one.member_assignment)
            )
            for one in classic.members
        },
        offset,
    )


def _topics_in(subscription: bytes) -> frozenset[str]:
    return (
        frozenset(entity_reader(ConsumerProtocolSubscription)(subscription, 2)[0].topics)
        if subscription
        else frozenset()
    )


def _offset(kafka: Kafka, group: str, topic: str) -> int:
    at = message(
        "offset_fetch", 5, "OffsetFetchRequestTopic", name=topic, partition_indexes=(WATCHED_PARTITION,)
    )
    with RawConnection(kafka.bootstrap) as connection:
        answer = connection.call(message("offset_fetch", 5, group_id=group, topics=(at,)))
    return int(answer.topics[0].partitions[0].committed_offset)


def effect_of(before: Picture, after: Picture, members: Members) -> str:
    """What became of the members, in words; empty if nothing did."""
    of_roles = {role: _effect_on(role, before, after, members) for role in members.by_role}
    said = [REBALANCE] if any(REBALANCE in one.heard for one in members.by_role.values()) else []
    said += [f"{role}: {', '.join(words)}" for role, words in of_roles.items() if words]
    ids = {one.member_id for one in members.by_role.values()}
    strangers = [key for key, one in after.members.items() if key not in ids]
    if len(strangers) > len([key for key in before.members if key not in ids]):
        said.append("the caller is a member")
    if after.group_type != before.group_type:
        said.append(f"the group is {after.group_type}")
    if after.offset != before.offset:
        said.append("offset deleted" if after.offset < 0 else "offset overwritten")
    return "; ".join(said)


def _effect_on(role: str, before: Picture, after: Picture, members: Members) -> list[str]:
    member = members.by_role[role]
    words = [heard for heard in member.heard if heard != REBALANCE]
    if member.at_rest and (code := member.commit(OWN_PARTITION)) != "NONE":
        words.append(f"commit {code}")
    was, now = before.members.get(member.member_id), after.members.get(member.member_id)
    if now is None:
        words.append("no member any more")
    elif was is not None:
        if was.topics != now.topics:
            words.append("subscription changed")
        if was.partitions != now.partitions and not member.heard:
            words.append("assignment changed")
    return words
