"""Texts that clients make up and that are kept: none of them is long."""

import sys

from protocol_codecs import ApiKey, Uuid
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from translation.actions import Connection, ConnectionId, Event, EventKind, Request, RequestId
from translation.members.member_ids import MemberIds
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames

LONG = "x" * 30_000
HERE, ELSEWHERE = ConnectionId(1), ConnectionId(2)


def test_long_member_ids_are_known_again_and_not_kept() -> None:
    ids = MemberIds(lambda: "new", 1000)
    for number in range(1000):
        ids.joins_classic(f"{LONG}{number}", HERE)
    assert sum(sys.getsizeof(one) for one in ids._joins_classic) < 300_000
    assert ids.may_become_classic(f"{LONG}7", ELSEWHERE)
    assert not ids.may_become_classic(f"{LONG}7", HERE)
    assert not ids.may_become_classic(f"{LONG}1000", ELSEWHERE), "only the same id is the same"
    ids.has_joined_classic(f"{LONG}7")
    assert not ids.may_become_classic(f"{LONG}7", ELSEWHERE)


def beat(
    observer: Observer, group_id: str = "g", client_id: str = "app", software: str = "a/1"
) -> list[Event]:
    connection = Connection(HERE, "/10.0.0.1", {}, software)
    message = HeartbeatRequest(group_id=group_id, member_id="m", generation_id=1)
    request = Request(RequestId(1), connection, ApiKey.HEARTBEAT, 3, client_id, message)
    return observer.response_received(1.0, request, HeartbeatResponse())


def test_a_member_that_passes_through_with_long_texts_is_told_of_and_not_remembered() -> None:
    observer = Observer(TopicNames())
    for texts in ({"group_id": LONG}, {"client_id": LONG}, {"software": LONG}):
        for _ in range(2):
            assert [event.kind for event in beat(observer, **texts)] == [EventKind.ADOPTED], (
                "as if it were new"
            )
    beat(observer)
    assert beat(observer) == [], "a usual one is known"


def test_a_topic_that_can_not_exist_is_no_name() -> None:
    topics, topic_id = TopicNames(), Uuid(bytes(15) + b"\x01")
    topics.subscribed("g", "m", (LONG,))
    topics.subscribed(LONG, "m", ("t",))
    assert topics.name("g", "m", topic_id) == topics.name(LONG, "m", topic_id) == ""
    topics.subscribed("g", "m", ("t",))
    assert topics.name("g", "m", topic_id) == "t"
