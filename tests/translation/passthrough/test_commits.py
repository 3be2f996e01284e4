"""Which commits are reported: the refused ones, those that set an offset back, and one a minute of a partition."""

import pytest

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from translation.actions import Connection, ConnectionId, Event, EventKind, Request, RequestId
from translation.partitions import TopicOffsets
from translation.passthrough.commits import EVERY_S, REFUSED_EVERY_S, CommitWatch

TOPIC = Uuid(bytes(15) + b"\x01")
CONNECTION = Connection(ConnectionId(1), "10.0.0.1", {}, "librdkafka/2.8.0")


class Watched:
    """A watch, and a member of a group that commits; ``now`` is in seconds."""

    def __init__(self, limit: int = 1000) -> None:
        self.watch = CommitWatch(limit=limit)
        self.now = 100.0

    def commit(
        self,
        offsets: dict[int, int],
        *,
        codes: dict[int, ErrorCode] | None = None,
        group: str = "g",
        member: str = "m",
        by_id: bool = False,
        api_key: ApiKey = ApiKey.OFFSET_COMMIT,
        unanswered: frozenset[int] = frozenset(),
    ) -> list[Event]:
        named = {"topic_id": TOPIC} if by_id else {"name": "t"}
        asked = OffsetCommitRequestTopic(
            **named,
            partitions=tuple(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                for index, offset in offsets.items()
            ),
        )
        answered = OffsetCommitResponseTopic(
            **named,
            partitions=tuple(
                OffsetCommitResponsePartition(
                    partition_index=index, error_code=(codes or {}).get(index, ErrorCode.NONE)
                )
                for index in reversed(offsets)  # a response has them in any order
                if index not in unanswered
            ),
        )
        message = OffsetCommitRequest(
            group_id=group, member_id=member, generation_id_or_member_epoch=7, topics=(asked,)
        )
        return self.watch.answered(
            self.now,
            Request(RequestId(1), CONNECTION, api_key, 8, "app", message),
            OffsetCommitResponse(topics=(answered,)),
            "translated",
            {TOPIC: "t"}.get,
        )


def test_the_first_commit_of_a_partition_is_reported_and_then_one_a_minute() -> None:
    watched = Watched()
    (event,) = watched.commit({0: 5, 1: 9})
    assert (event.kind, event.group_id, event.member_id, event.generation) == (
        EventKind.COMMITTED,
        "g",
        "m",
        7,
    )
    assert (event.protocol, event.client_id, event.software) == ("translated", "app", "librdkafka/2.8.0")
    assert event.commits == (TopicOffsets("t", (0, 1), (5, 9), (-1, -1)),)
    watched.now += EVERY_S - 1
    assert watched.commit({0: 6, 1: 9}) == []
    watched.now += 1
    (event,) = watched.commit({0: 7})
    assert event.commits == (TopicOffsets("t", (0,), (7,), (6,)),)


def test_a_partition_that_the_broker_does_not_answer_for_is_not_taken_as_accepted() -> None:
    watched = Watched()
    (event,) = watched.commit({0: 5, 1: 9}, unanswered=frozenset({1}))
    assert event.commits == (TopicOffsets("t", (0,), (5,), (-1,)),)


def test_an_offset_that_goes_back_is_reported_at_once_with_the_one_before() -> None:
    watched = Watched()
    watched.commit({0: 5, 1: 9})
    watched.commit({0: 50, 1: 10})
    (event,) = watched.commit({0: 49, 1: 11})
    assert event.commits == (TopicOffsets("t", (0,), (49,), (50,)),)
    assert watched.commit({0: 49}) == [], "it does not go back any more"


def test_a_refused_commit_has_its_error_and_what_was_accepted_beside_it_is_another_event() -> None:
    watched = Watched()
    refused, accepted = watched.commit({0: 5, 1: 9}, codes={1: ErrorCode.ILLEGAL_GENERATION})
    assert (refused.reason, refused.commits) == (
        "ILLEGAL_GENERATION",
        (TopicOffsets("t", (1,), (9,), (-1,)),),
    )
    assert (accepted.reason, accepted.commits) == ("", (TopicOffsets("t", (0,), (5,), (-1,)),))
    (event,) = watched.commit({1: 8})
    assert event.commits[0].before == (-1,), "a refused offset was not committed"


def test_a_client_that_is_refused_again_and_again_is_reported_once_a_second() -> None:
    watched = Watched()
    stale = {0: ErrorCode.STALE_MEMBER_EPOCH}
    assert len(watched.commit({0: 5}, codes=stale)) == 1
    assert [watched.commit({0: 5}, codes=stale) for _ in range(3)] == [[], [], []]
    assert len(watched.commit({0: 5}, codes={0: ErrorCode.UNKNOWN_MEMBER_ID})) == 1, "another error"
    assert len(watched.commit({0: 5}, codes=stale, member="other")) == 1
    watched.now += REFUSED_EVERY_S
    assert len(watched.commit({0: 5}, codes=stale)) == 1


def test_a_topic_that_is_named_by_id_is_the_one_that_was_named_by_name() -> None:
    watched = Watched()
    watched.commit({0: 5})
    (event,) = watched.commit({0: 4}, by_id=True)
    assert event.commits == (TopicOffsets("t", (0,), (4,), (5,)),)


@pytest.mark.parametrize(("codes", "events"), [({}, 0), ({0: ErrorCode.INVALID_TXN_STATE}, 1)])
def test_of_a_transaction_only_refusals_are_reported(codes: dict[int, ErrorCode], events: int) -> None:
    watched = Watched()
    assert len(watched.commit({0: 5}, codes=codes, api_key=ApiKey.TXN_OFFSET_COMMIT)) == events


def test_partitions_beyond_the_limit_are_forgotten_the_oldest_first() -> None:
    watched = Watched(limit=3)
    watched.commit({0: 5, 1: 5, 2: 5})
    watched.commit({3: 5})
    (event,) = watched.commit({0: 1})
    assert event.commits[0].before == (-1,)
    (event,) = watched.commit({2: 1})
    assert event.commits[0].before == (5,)


def test_ids_that_are_longer_than_those_of_real_clients_are_left_out() -> None:
    watched = Watched()
    assert watched.commit({0: 5}, group="g" * 256) == watched.commit({0: 5}, member="m" * 256) == []
