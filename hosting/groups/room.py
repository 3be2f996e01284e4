"""All hosted groups of one process: calls and time in, answers out. Sans-IO.

    room = HostedGroups(HostedSettings(), new_id=..., uuids=RandomUuids(), now_ms=0)
    answers = room.handle(call, JoinGroupRequest(...), now_ms)      # none of this call if it has to wait
    answers = room.advance(now_ms)                                  # when next_deadline_ms() has come

The caller has made sure that the sender of a call may act in its group.
"""

import heapq
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from coordinator.uuids import UuidSource
from hosting.groups.connect.rules import CONNECT_PROTOCOL_TYPE, ConnectRules
from hosting.groups.consumers.rules import ConsumerRules
from hosting.groups.group import HostedGroup
from hosting.groups.member import HostedCall, HostedMember
from hosting.groups.settings import HostedSettings
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message

T = TypeVar("T")
Hosted = HostedGroup[Any]

_PAUSE_MS = 1_000
"""Until a group is looked at again for which this process may not act now."""
_FEW_BOOKINGS = 100
_MANY_LEAVE_SINCE = 3
_WITHOUT_PROTOCOL_SINCE = 7
"""The first version of JoinGroup whose answer may have no protocol; before that its name is empty."""


class HostedAnswer(msgspec.Struct, frozen=True):
    """The answer to a call, which may have waited."""

    call: HostedCall
    message: Message


def _ignore(_group_id: str, _failure: Exception) -> None:
    """Nobody wants to know."""


class HostedGroups:
    """The groups that this process hosts. ``now_ms`` is of any clock that does not run backwards.

    For the longest session timeout of those that join a group, counted from ``now_ms`` of the start, nobody is given
    anything: clients of an earlier process may not have heard yet that they are members no longer.

    ``closed_from_ms`` says from when on that is counted for a group, if not from the start: one that another process
    has hosted. ``may_act`` says whether this process may act as a group's host now; while it may not, no time passes
    for the group, and its members' sessions begin anew afterwards.

    A bug in one group ends that group, and nothing else: ``on_failure`` is told, its waiting clients have to join anew,
    and for the longest session timeout of its members nobody is given anything of it.
    """

    def __init__(
        self,
        settings: HostedSettings,
        *,
        new_id: Callable[[], str],
        uuids: UuidSource,
        now_ms: int,
        on_failure: Callable[[str, Exception], None] = _ignore,
    ) -> None:
        self.groups: dict[str, Hosted] = {}
        self.may_act: Callable[[str], bool] = lambda _: True
        self.closed_from_ms: Callable[[str], int] = lambda _: now_ms
        self._stopped: set[str] = set()
        """Groups that are due, and for which this process may not act now."""
        self._settings = settings
        self._new_id = new_id
        self._uuids = uuids
        self._on_failure = on_failure
        self._closed_until_ms: dict[str, int] = {}
        """Groups that a bug has ended, until the sessions of their members are over. They count as hosted."""
        self._answers: list[HostedAnswer] = []
        self._joined_on: dict[object, set[str]] = {}
        """By connection, the groups of which a JoinGroup has waited on it."""
        self._size = 0
        self._sizes: dict[str, int] = {}
        """The bytes that are kept of all groups, and of each."""
        self._booked: list[tuple[int, str]] = []
        self._booked_at: dict[str, int] = {}

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Whether this is a member of a hosted group."""
        group = self.groups.get(group_id)
        return group is not None and member_id in group.members

    def has_members(self, group_id: str) -> bool:
        """Whether a group is hosted here now."""
        return group_id in self.groups or group_id in self._closed_until_ms

    def why_refused(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Return the error of a commit; NONE if it is one of a member's present generation."""
        group = self.groups.get(group_id)
        return (
            ErrorCode.UNKNOWN_MEMBER_ID
            if group is None
            else group.roster.why_refused(member_id, instance_id, generation)
        )

    def handle(self, call: HostedCall, message: Message, now_ms: int) -> list[HostedAnswer]:
        """Serve a JoinGroup, SyncGroup, Heartbeat or LeaveGroup."""
        group_id: str = getattr(message, "group_id", "")
        response = self._contained(
            group_id,
            lambda: self._serve(call, message, now_ms),
            now_ms,
            if_it_fails=lambda: _unknown_member(message),
        )
        if response is not None and all(one.call is not call for one in self._answers):
            self._answers.append(HostedAnswer(call, response))
        return self._done(group_id, now_ms)

    def _serve(self, call: HostedCall, message: Message, now_ms: int) -> Message | None:
        """Return the answer to a call; None if it has to wait."""
        match message:
            case JoinGroupRequest():
                return self._join(call, message, now_ms)
            case SyncGroupRequest():
                group = self.groups.get(message.group_id)
                return _unknown_member(message) if group is None else group.sync(message, now_ms)
            case HeartbeatRequest():
                group = self.groups.get(message.group_id)
                return _unknown_member(message) if group is None else group.heartbeat(message, now_ms)
            case LeaveGroupRequest():
                return self._leave(call, message, now_ms)
            case _:
                raise TypeError(type(message).__name__)

    def _contained(
        self, group_id: str, do: Callable[[], T], now_ms: int, *, if_it_fails: Callable[[], T]
    ) -> T:
        """Do something in a group. If that fails, the group ends."""
        try:
            return do()
        except Exception as failure:  # noqa: BLE001  a bug in one group ends it, never the process or other groups
            self._end(group_id, failure, now_ms)
            return if_it_fails()

    def _end(self, group_id: str, failure: Exception, now_ms: int) -> None:
        """End a group in which a bug was met. What is asked of it here is plain data, which can't fail again."""
        members = self._forget(group_id, ErrorCode.UNKNOWN_MEMBER_ID)
        closed_ms = max((now_ms + one.session_timeout_ms for one in members), default=now_ms)
        if closed_ms > now_ms:
            self._closed_until_ms[group_id] = max(closed_ms, self._closed_until_ms.get(group_id, 0))
        self._on_failure(group_id, failure)

    def _forget(self, group_id: str, code: ErrorCode) -> list[HostedMember]:
        """Forget a group, and answer its JoinGroups that wait. Return who was a member."""
        group = self.groups.pop(group_id, None)
        self._size -= self._sizes.pop(group_id, 0)
        self._booked_at.pop(group_id, None)
        self._stopped.discard(group_id)
        members = [] if group is None else list(group.members.values())
        for member in members:
            if member.join is not None:
                refused = JoinGroupResponse(error_code=code, member_id=member.member_id)
                self._answers.append(HostedAnswer(member.join.call, refused))
        return members

    def remove(self, group_id: str, member_id: str, now_ms: int) -> list[HostedAnswer]:
        """Remove a member whose client has shown that it owns nothing any more."""
        if self.is_member(group_id, member_id):
            self._in_group(group_id, lambda group: group.leave(member_id, now_ms), now_ms)
        return self._done(group_id, now_ms)

    def _in_group(self, group_id: str, do: Callable[[Hosted], None], now_ms: int) -> None:
        group = self.groups.get(group_id)
        if group is not None:
            self._contained(group_id, lambda: do(group), now_ms, if_it_fails=lambda: None)

    def renew(self, group_id: str, member_id: str, now_ms: int) -> None:
        """Note that a member's client is alive."""
        if self.is_member(group_id, member_id):
            self.groups[group_id].renew(member_id, now_ms)

    def client_gone(self, connection: object, now_ms: int) -> list[HostedAnswer]:
        """Forget the JoinGroups that wait on a connection that has ended."""
        for group_id in sorted(filter(self.may_act, self._joined_on.pop(connection, ()))):
            self._in_group(group_id, lambda group: group.client_gone(connection, now_ms), now_ms)
            self._look_at(group_id, now_ms)
        return self._take()

    def lose(self, group_id: str) -> list[HostedAnswer]:
        """Forget a group that another process hosts now. Clients that wait are told to find it."""
        self._forget(group_id, ErrorCode.NOT_COORDINATOR)
        self._closed_until_ms.pop(group_id, None)
        return self._take()

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` has something to look at; None if never."""
        return self._booked[0][0] if self._booked else None

    def advance(self, now_ms: int) -> list[HostedAnswer]:
        """Do everything that is due."""
        while self._booked and self._booked[0][0] <= now_ms:
            when, group_id = heapq.heappop(self._booked)
            if self._booked_at.get(group_id) != when:
                continue  # an earlier booking replaced it
            del self._booked_at[group_id]
            if self._closed_until_ms.get(group_id, now_ms + 1) <= now_ms:
                del self._closed_until_ms[group_id]
            if not self.may_act(group_id):
                self._stopped.add(group_id)
                self._book(group_id, now_ms + _PAUSE_MS)
                continue
            if group_id in self._stopped:
                self._stopped.discard(group_id)
                self._in_group(group_id, lambda group: group.renew_all(now_ms), now_ms)
            self._in_group(group_id, lambda group: group.advance(now_ms), now_ms)
            self._look_at(group_id, now_ms, is_advanced=True)
        return self._take()

    def _join(self, call: HostedCall, message: JoinGroupRequest, now_ms: int) -> JoinGroupResponse | None:
        group = self.groups.get(message.group_id)
        if message.member_id and (group is None or message.member_id not in group.members):
            static = None if group is None else group.roster.static_member(message.group_instance_id)
            code = ErrorCode.UNKNOWN_MEMBER_ID if static is None else ErrorCode.FENCED_INSTANCE_ID
            return JoinGroupResponse(error_code=code, member_id=message.member_id)
        if group is None:
            if len(self.groups) >= self._settings.most_groups:
                return JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
            group = self.groups[message.group_id] = HostedGroup(
                self._rules(message),
                self._settings,
                lambda waited, answer: self._answers.append(HostedAnswer(waited, answer)),
                started_ms=self.closed_from_ms(message.group_id),
                now_ms=max(now_ms, self._closed_until_ms.get(message.group_id, 0)),
            )
        room_left = self._settings.most_bytes_of_all - self._size
        response = group.join(call, message, self._new_id, now_ms, room_left)
        if response is None:
            joined = self._joined_on.setdefault(call.connection, set())
            joined.add(message.group_id)
            if len(joined) > 2 * self._settings.most_groups:
                joined.intersection_update(self.groups)
        return response

    def _rules(self, message: JoinGroupRequest) -> ConsumerRules | ConnectRules:
        """Return the rules of a new group, which refuse a JoinGroup of any other protocol type."""
        if message.protocol_type == CONNECT_PROTOCOL_TYPE:
            return ConnectRules(self._settings, self._uuids)
        return ConsumerRules(message.group_id, self._settings, self._uuids)

    def _leave(self, call: HostedCall, message: LeaveGroupRequest, now_ms: int) -> LeaveGroupResponse:
        if call.version < _MANY_LEAVE_SINCE:
            code = self._leave_one(message.group_id, MemberIdentity(member_id=message.member_id), now_ms)
            return LeaveGroupResponse(error_code=code)
        return LeaveGroupResponse(
            members=tuple(
                MemberResponse(
                    member_id=one.member_id,
                    group_instance_id=one.group_instance_id,
                    error_code=self._leave_one(message.group_id, one, now_ms),
                )
                for one in message.members
            )
        )

    def _leave_one(self, group_id: str, who: MemberIdentity, now_ms: int) -> ErrorCode:
        group = self.groups.get(group_id)
        static = None if group is None else group.roster.static_member(who.group_instance_id)
        member_id = static.member_id if static is not None and not who.member_id else who.member_id
        if static is not None and static.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if group is None or member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group.leave(member_id, now_ms)
        return ErrorCode.NONE

    def _done(self, group_id: str, now_ms: int) -> list[HostedAnswer]:
        self._look_at(group_id, now_ms)
        return self._take()

    def _look_at(self, group_id: str, now_ms: int, *, is_advanced: bool = False) -> None:
        """Drop a group without members, and book the next deadline of one that has some."""
        self._in_group(group_id, lambda group: self._account(group_id, group, now_ms, is_advanced), now_ms)
        if (closed_ms := self._closed_until_ms.get(group_id)) is not None:
            self._book(group_id, closed_ms)

    def _account(self, group_id: str, group: Hosted, now_ms: int, is_advanced: bool) -> None:
        if group.is_empty:
            del self.groups[group_id]
            self._size -= self._sizes.pop(group_id, 0)
            self._booked_at.pop(group_id, None)
            return
        size = group.size
        self._size += size - self._sizes.get(group_id, 0)
        self._sizes[group_id] = size
        due = group.next_deadline_ms()
        if due is not None:
            self._book(group_id, max(due, now_ms + 1) if is_advanced else due)

    def _book(self, group_id: str, due_ms: int) -> None:
        """Have a group looked at then, or earlier."""
        booked = self._booked_at.get(group_id)
        if booked is not None and booked <= due_ms:
            return
        self._booked_at[group_id] = due_ms
        heapq.heappush(self._booked, (due_ms, group_id))
        if len(self._booked) > 2 * len(self._booked_at) + _FEW_BOOKINGS:
            # Groups that came and went leave theirs behind, each for as long as a client says.
            self._booked = [(when, one) for one, when in self._booked_at.items()]
            heapq.heapify(self._booked)

    def _take(self) -> list[HostedAnswer]:
        answers, self._answers = self._answers, []
        return [_in_version(answer) for answer in answers]


def _in_version(answer: HostedAnswer) -> HostedAnswer:
    message = answer.message
    if (
        not isinstance(message, JoinGroupResponse)
        or message.protocol_name is not None
        or answer.call.version >= _WITHOUT_PROTOCOL_SINCE
    ):
        return answer
    return HostedAnswer(answer.call, msgspec.structs.replace(message, protocol_name=""))


def _unknown_member(message: Message) -> Message:
    """The answer to a call of somebody who is no member."""
    match message:
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=message.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        case _:
            return LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
