"""Observes members whose requests the broker itself answers, and reports the same events as for translated ones.

These are classic members of groups that are not translated, members that speak the new protocol themselves, and those
of share groups and streams groups. The proxy shows the observer each such request when it forwards it, and the response
when it comes. Nothing here changes a request. Sans-IO: time is an argument.

:mod:`translation.passthrough.classic_observer` and :mod:`translation.passthrough.heartbeat_observer` derive the events.
"""

from typing import Any

from protocol_codecs import ApiKey
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from translation.actions import ConnectionId, Event, EventKind, Request
from translation.passthrough.classic_observer import ClassicObserver
from translation.passthrough.commits import COMMITS
from translation.passthrough.heartbeat_observer import (
    ConsumerObserver,
    HeartbeatObserver,
    ShareObserver,
    StreamsObserver,
)
from translation.passthrough.observed_members import MEMBERS_LIMIT, ObservedMembers
from translation.passthrough.topic_names import TopicNames

OBSERVED: frozenset[int] = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        *COMMITS,
    }
)
"""The APIs whose requests and responses that are shown when the broker has answered: to the observer, commits to
:class:`translation.passthrough.commits.CommitWatch`."""

OBSERVED_WHEN_FORWARDED: frozenset[int] = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)
"""The APIs whose requests the observer is also shown when they are relayed, because members give up in them what they
were asked for. It is shown a JoinGroup then, too, but by the translation, which decides first whether to relay it
(:class:`translation.actions.Authorized`)."""


class Observer:
    """The members of one process whose calls pass through. Each method returns the events that follow, in order."""

    def __init__(self, topics: TopicNames, *, members_limit: int = MEMBERS_LIMIT) -> None:
        self.topics = topics
        self._members = ObservedMembers(topics, members_limit)
        self._by_id = self._members.by_id
        self._classic = ClassicObserver(self._members)
        self._heartbeats: dict[int, HeartbeatObserver] = {
            int(ApiKey.CONSUMER_GROUP_HEARTBEAT): ConsumerObserver(self._members, topics),
            int(ApiKey.SHARE_GROUP_HEARTBEAT): ShareObserver(self._members, topics),
            int(ApiKey.STREAMS_GROUP_HEARTBEAT): StreamsObserver(self._members, topics),
        }

    def request_forwarded(self, now: float, request: Request) -> list[Event]:
        """A request was forwarded whose sender the broker has accepted before.

        Its response will follow, unless the connection ends.
        """
        member = self._by_id.get((request.message.group_id, getattr(request.message, "member_id", "")))
        if member is not None:
            if request.api_key == ApiKey.JOIN_GROUP:
                self._classic.join_forwarded(now, member, request.message)
            elif (observer := self._heartbeats.get(request.api_key)) is not None:
                observer.heartbeat_forwarded(member, request.message)
        return self._members.take_events()

    def response_received(self, now: float, request: Request, response: Any) -> list[Event]:
        """The broker answered a request that was forwarded."""
        observer = self._heartbeats.get(request.api_key)
        if observer is not None:
            observer.heartbeat_answered(now, request, response)
            return self._members.take_events()
        match request.api_key:
            case ApiKey.JOIN_GROUP:
                self._classic.join_answered(now, request, response)
            case ApiKey.SYNC_GROUP:
                self._classic.sync_answered(now, request, response)
            case ApiKey.HEARTBEAT:
                self._classic.heartbeat_answered(now, request, response)
            case ApiKey.LEAVE_GROUP:
                self._classic.leave_answered(request.message, response)
        return self._members.take_events()

    def kept_alive(self, now: float, connection_id: ConnectionId, message: HeartbeatRequest) -> bool:
        """The broker accepted a Heartbeat; False if the member is unknown, so :meth:`response_received` has to see it.

        For a known member this is all that :meth:`response_received` does with such a Heartbeat.
        """
        member = self._by_id.get((message.group_id, message.member_id))
        if member is None:
            return False
        member.connection_id = connection_id
        self._members.touch(member, now)
        return True

    def protocol_of(self, group_id: str, member_id: str) -> str:
        """How a member takes part whose calls pass through; empty if it is not known."""
        member = self._by_id.get((group_id, member_id))
        return "" if member is None else member.protocol

    def member_moved(self, group_id: str, member_id: str, reason: str) -> list[Event]:
        """The translation told a member to join anew: it gives up its partitions, and its membership ends."""
        member = self._by_id.get((group_id, member_id))
        if member is not None:
            self._members.end(member, EventKind.LEFT, reason)
        return self._members.take_events()

    def member_translated(self, group_id: str, member_id: str) -> None:
        """The translation has this member now, under the same id."""
        self._by_id.pop((group_id, member_id), None)

    def handle_time(self, now: float) -> list[Event]:
        """Expire the members that have been silent for their session timeout."""
        self._members.expire(now)
        return self._members.take_events()
