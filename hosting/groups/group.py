"""One hosted group: sessions, JoinGroups that wait, generations (theory of operation: the package).

What depends on the protocol type is behind :class:`hosting.groups.rules.ProtocolRules`.
"""

from collections.abc import Callable, Mapping
from typing import Generic

from hosting.groups.admission import check_join
from hosting.groups.member import HostedCall, HostedMember, WaitingJoin
from hosting.groups.roster import Roster
from hosting.groups.rules import OfferT, ProtocolRules
from hosting.groups.settings import HostedSettings
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message

Answer = Callable[[HostedCall, Message], None]


class HostedGroup(Generic[OfferT]):
    """One group. Each method is told the time (milliseconds); ``answer`` gets the answers of waiting JoinGroups.

    ``started_ms`` is when this process has begun: clients of an earlier one may own partitions until their session
    timeout has passed from then on.
    """

    def __init__(
        self,
        rules: ProtocolRules[OfferT],
        settings: HostedSettings,
        answer: Answer,
        *,
        started_ms: int,
        now_ms: int,
    ) -> None:
        self.rules = rules
        self.roster = Roster()
        self._settings = settings
        self._answer = answer
        # Clients of an earlier process may own something for as long as their sessions last. Those that go on when they
        # have lost their membership bring it along from the broker, too: they are waited for from the first one on.
        self._quarantine_from_ms = max(started_ms, now_ms) if rules.goes_on_without_membership else started_ms
        self._opens_ms: int | None = now_ms + settings.initial_delay_ms
        """Until when no JoinGroup is answered; None if that is over."""

    # -- what others ask ------------------------------------------------------------------------------------------

    @property
    def members(self) -> Mapping[str, HostedMember]:
        """The members, by member id."""
        return self.roster.members

    @property
    def size(self) -> int:
        """How many bytes are kept of its clients: of JoinGroups, and of what was computed."""
        return self.rules.kept_bytes + sum(one.size for one in self.members.values())

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` has something to do; None if never."""
        deadlines = [
            member.session_deadline_ms if member.join is None else (self._opens_ms or member.join.limit_ms)
            for member in self.members.values()
        ]
        if (due := self.rules.next_deadline_ms()) is not None:
            deadlines.append(due)
        return min(deadlines, default=None)

    # -- JoinGroup ------------------------------------------------------------------------------------------------

    def join(
        self,
        call: HostedCall,
        message: JoinGroupRequest,
        new_id: Callable[[], str],
        now_ms: int,
        room_left: int,
    ) -> JoinGroupResponse | None:
        """Serve a JoinGroup without a member id, or of a member; return None if it waits.

        ``room_left`` is how many more bytes may be kept of all groups.
        """
        known = self.members.get(message.member_id)
        if known is not None and known.instance_id != message.group_instance_id:
            return _refused_join(message.member_id, ErrorCode.FENCED_INSTANCE_ID)
        replaced = self.roster.static_member(message.group_instance_id) if known is None else None
        former = known or replaced
        offer = check_join(
            self.rules,
            self._settings,
            call,
            message,
            others=[one for one in self.members.values() if one is not former],
            former=former,
            room_left=room_left,
        )
        if isinstance(offer, ErrorCode):
            return _refused_join(message.member_id, offer)
        rebalance_timeout_ms = message.rebalance_timeout_ms if call.version else message.session_timeout_ms
        if known is None:
            newcomer = HostedMember(
                member_id=new_id(),
                instance_id=message.group_instance_id,
                client_id=call.client_id,
                client_host=call.client_host,
                session_timeout_ms=message.session_timeout_ms,
                rebalance_timeout_ms=max(0, rebalance_timeout_ms),
                subscriptions=offer.subscriptions,
                size=offer.size,
                session_deadline_ms=now_ms + message.session_timeout_ms,
            )
            return self._join_anew(call, newcomer, offer, replaced, now_ms)
        self._abandon_join(known, ErrorCode.REBALANCE_IN_PROGRESS)
        known.session_timeout_ms = message.session_timeout_ms
        known.rebalance_timeout_ms = max(0, rebalance_timeout_ms)
        self.rules.rejoin(known, offer)
        known.subscriptions, known.size = offer.subscriptions, offer.size
        if self._move(known, now_ms, declares=True) is not ErrorCode.NONE:
            return _refused_join(message.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self._wait(known, call, now_ms)
        return None

    def _join_anew(
        self,
        call: HostedCall,
        member: HostedMember,
        offer: OfferT,
        replaced: HostedMember | None,
        now_ms: int,
    ) -> JoinGroupResponse | None:
        quarantine_ms = self._quarantine_from_ms + member.session_timeout_ms
        is_late = self.rules.goes_on_without_membership and self._opens_ms is None
        if self._opens_ms is not None or (now_ms < quarantine_ms and not is_late):
            self._opens_ms = max(self._opens_ms or 0, quarantine_ms)
        if replaced is not None:
            self._abandon_join(replaced, ErrorCode.FENCED_INSTANCE_ID)
            self.rules.leave(replaced, now_ms, is_replaced=True)
            self.roster.remove(replaced)
        self.roster.add(member)
        if self.rules.join(member, offer, replaced, now_ms) is not ErrorCode.NONE:
            self._drop(member)
            return _refused_join("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._wait(member, call, now_ms)
        return None

    def _wait(self, member: HostedMember, call: HostedCall, now_ms: int) -> None:
        longest_ms = self._settings.longest_join_ms
        if self.rules.goes_on_without_membership:  # it does its work while it waits
            longest_ms = max(longest_ms, member.rebalance_timeout_ms)
        limit_ms = now_ms + min(member.rebalance_timeout_ms, longest_ms)
        member.join = WaitingJoin(call, limit_ms)
        self.settle(now_ms)

    def settle(self, now_ms: int) -> None:
        """Answer the JoinGroups that need not wait any longer."""
        if self._opens_ms is not None and now_ms < self._opens_ms:
            return
        self._opens_ms = None
        for member in list(self.members.values()):
            if member.join is not None and member.member_id in self.members:
                self._try_answer(member, member.join, now_ms)

    def _try_answer(self, member: HostedMember, join: WaitingJoin, now_ms: int) -> None:
        may_wait = now_ms < join.limit_ms
        if may_wait and self.rules.has_nothing_new(member):
            return
        if self._move(member, now_ms) is not ErrorCode.NONE:
            return
        if may_wait and self.rules.has_to_wait(member):
            return
        result = self.rules.join_result(member, self.roster.members, now_ms)
        member.join, member.told_to_rejoin, member.has_its_id = None, False, True
        member.generation = max(member.generation, result.group_epoch)
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        self._answer(
            join.call,
            JoinGroupResponse(
                generation_id=member.generation,
                protocol_type=self.rules.protocol_type,
                protocol_name=result.protocol,
                leader=result.leader,
                member_id=member.member_id,
                members=result.members,
            ),
        )

    def _abandon_join(self, member: HostedMember, code: ErrorCode) -> None:
        if member.join is not None:
            call, member.join = member.join.call, None
            self._answer(call, _refused_join(member.member_id, code))

    # -- SyncGroup, Heartbeat, LeaveGroup -------------------------------------------------------------------------

    def sync(self, message: SyncGroupRequest, now_ms: int) -> SyncGroupResponse:
        """Serve a SyncGroup."""
        code = self.roster.why_refused(message.member_id, message.group_instance_id, message.generation_id)
        if code is not ErrorCode.NONE:
            return SyncGroupResponse(error_code=code)
        member = self.members[message.member_id]
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        if member.join is not None:
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        if not self.rules.take_assignments(member, message.assignments, now_ms):
            member.told_to_rejoin = True
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        code = self._move(member, now_ms)
        assignment = self.rules.hand_out(member) if code is ErrorCode.NONE else None
        if assignment is None:
            return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.settle(now_ms)
        return SyncGroupResponse(
            protocol_type=self.rules.protocol_type,
            protocol_name=message.protocol_name,
            assignment=assignment,
        )

    def heartbeat(self, message: HeartbeatRequest, now_ms: int) -> HeartbeatResponse:
        """Serve a Heartbeat."""
        code = self.roster.why_refused(message.member_id, message.group_instance_id, message.generation_id)
        if code is not ErrorCode.NONE:
            return HeartbeatResponse(error_code=code)
        member = self.members[message.member_id]
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        code = self._move(member, now_ms)
        if code is ErrorCode.NONE and self.rules.has_to_rejoin(member):
            member.told_to_rejoin = True
            code = ErrorCode.REBALANCE_IN_PROGRESS
        self.settle(now_ms)
        return HeartbeatResponse(error_code=code)

    def leave(self, member_id: str, now_ms: int) -> None:
        """Remove a member: it left, or its session has ended."""
        member = self.members[member_id]
        self._abandon_join(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.rules.leave(member, now_ms)
        self._drop(member)
        self.settle(now_ms)

    # -- time, connections ----------------------------------------------------------------------------------------

    def renew(self, member_id: str, now_ms: int) -> None:
        """Note that a member's client is alive."""
        member = self.members[member_id]
        member.session_deadline_ms = now_ms + member.session_timeout_ms

    def renew_all(self, now_ms: int) -> None:
        """Begin the sessions of all members anew: for a while none of their calls was heard."""
        for member_id in self.members:
            self.renew(member_id, now_ms)

    def client_gone(self, connection: object, now_ms: int) -> None:
        """Forget the JoinGroups that wait on a connection that has ended. Who never got its member id leaves."""
        for member in list(self.members.values()):
            if member.join is not None and member.join.call.connection == connection:
                member.join = None
                member.session_deadline_ms = now_ms + member.session_timeout_ms
                if not member.has_its_id:
                    self.rules.keep_for_a_session(member, now_ms)
                    self.leave(member.member_id, now_ms)

    def advance(self, now_ms: int) -> None:
        """Do what is due: sessions that have ended, members that took too long, JoinGroups that waited enough."""
        self.rules.advance(now_ms)
        self._drop_fenced()
        for member in list(self.members.values()):
            if (
                member.join is None
                and member.session_deadline_ms <= now_ms
                and member.member_id in self.members
            ):
                self.leave(member.member_id, now_ms)
        self.settle(now_ms)

    def _move(self, member: HostedMember, now_ms: int, *, declares: bool = False) -> ErrorCode:
        """Let a member take the steps towards its target that it can take now; one that is fenced is dropped."""
        code = self.rules.move(member, now_ms, declares=declares)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._drop_fenced()
        return code

    def _drop_fenced(self) -> None:
        """Drop the members that the coordinator has removed by itself: they took too long to give up partitions."""
        for member_id in self.members.keys() - self.rules.present():
            member = self.members[member_id]
            self._abandon_join(member, ErrorCode.UNKNOWN_MEMBER_ID)
            self._drop(member)

    def _drop(self, member: HostedMember) -> None:
        self.roster.remove(member)
        self.rules.forget(member)


def _refused_join(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)
