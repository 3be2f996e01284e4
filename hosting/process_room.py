"""The groups that this process hosts (``mode: host``), as the translation uses them. An experiment."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import structlog

from coordinator.uuids import RandomUuids
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedAnswer, HostedGroups
from hosting.groups.settings import HostedSettings
from protocol_codecs import ErrorCode
from translation.actions import ConnectionId, Request
from translation.members.member_ids import kafka_uuid

Answers: TypeAlias = Sequence[tuple[Request, Any]]
"""Requests that are answered now, each with its response."""

_MS = 1000

_log = structlog.get_logger()


def _nobody_counts() -> None:
    """Nobody counts failures."""


class ProcessRoom:
    """All hosted groups of this process, which has run since ``started``. Times are in seconds of the translation's
    clock."""

    def __init__(self, settings: HostedSettings, started: float) -> None:
        self.count_failure: Callable[[], None] = _nobody_counts
        """Called when a bug has ended a group, and only that group."""
        self.groups = HostedGroups(
            settings,
            new_id=lambda: f"hosted-{kafka_uuid()}",
            uuids=RandomUuids(),
            now_ms=_ms(started),
            on_failure=self._failed,
        )

    def _failed(self, group_id: str, failure: Exception) -> None:
        self.count_failure()
        _log.error("a hosted group failed, its members have to join anew", group=group_id, exc_info=failure)

    def follow(self, may_act: Callable[[str], bool], closed_from: Callable[[str], float]) -> None:
        """Ask these from now on: whether this process may act as a group's host, and since when clients of another one
        may own partitions until their sessions end.
        """
        self.groups.may_act = may_act
        self.groups.closed_from_ms = lambda group_id: _ms(closed_from(group_id))

    def lose(self, group_id: str) -> Answers:
        """Forget a group that another process hosts now."""
        return _answers(self.groups.lose(group_id))

    def hosted(self) -> list[str]:
        """The groups that have members."""
        return list(self.groups.groups)

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Whether this is a member of a hosted group."""
        return self.groups.is_member(group_id, member_id)

    def has_members(self, group_id: str) -> bool:
        """Whether a group is hosted here now."""
        return self.groups.has_members(group_id)

    def why_refused(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """The error of a call with this generation; NONE if it is the member's present one."""
        return self.groups.why_refused(group_id, member_id, instance_id, generation)

    def handle(self, now: float, request: Request) -> Answers:
        """Serve a JoinGroup, SyncGroup, Heartbeat or LeaveGroup; its own answer may come later."""
        connection = request.connection
        hosted_call = HostedCall(
            key=request,
            connection=connection.id,
            version=request.version,
            client_id=request.client_id or "",
            client_host=connection.client_host,
        )
        return _answers(self.groups.handle(hosted_call, request.message, _ms(now)))

    def remove(self, now: float, group_id: str, member_id: str) -> Answers:
        """Remove a member whose client has shown that it owns nothing any more."""
        return _answers(self.groups.remove(group_id, member_id, _ms(now)))

    def renew(self, now: float, group_id: str, member_id: str) -> None:
        """Note that a member's client is alive."""
        self.groups.renew(group_id, member_id, _ms(now))

    def client_gone(self, now: float, connection_id: ConnectionId) -> Answers:
        """Forget the JoinGroups that wait on a connection that has ended."""
        return _answers(self.groups.client_gone(connection_id, _ms(now)))

    def next_deadline(self) -> float:
        """When :meth:`advance` has something to do; infinity for never."""
        due = self.groups.next_deadline_ms()
        return math.inf if due is None else due / _MS

    def advance(self, now: float) -> Answers:
        """Do what is due."""
        return _answers(self.groups.advance(_ms(now)))


def _ms(now: float) -> int:
    """Milliseconds, rounded up: what is due at a deadline in seconds is due then."""
    return math.ceil(now * _MS)


def _answers(answers: list[HostedAnswer]) -> Answers:
    return [(one.call.key, one.message) for one in answers]  # type: ignore[misc]
