"""What this process may do for its members, as far as the member log says: everything, if it has no member log.

Each of several replicas has a member log (:mod:`translation.member_log`), by which they agree which of them serves a
member, and whether the member is ended. Others ask here and need not know whether there is one; only
:mod:`translation.admission.serving` and :mod:`translation.membership.expiry`, where a member log makes another way of
things, look at it.
"""

import math
from collections import OrderedDict
from typing import TYPE_CHECKING

from protocol_codecs import ErrorCode
from translation.actions import ConnectionId
from translation.member_log.outputs import JoinTerms, ServeDecision
from translation.member_log.ownership import Ownership
from translation.member_log.records import NO_GENERATION, Kind, MemberKey, MemberRecord, member_key
from translation.member_log.snapshots import NO_SNAPSHOT, Snapshot, decode_snapshot, encode_snapshot
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_ids import MemberIds, is_issued_form
from translation.members.member_state import MemberState
from translation.partitions import to_topics

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


_UNAVAILABLE_LIMIT = 10_000
"""Members whose calls are remembered to have had no verdict."""


class MemberLogView:
    """The member log of this process (None: it shares its groups with no other that has one), asked about members."""

    def __init__(self, environment: Environment, ids: MemberIds, log: "MemberLog | None") -> None:
        self._environment = environment
        self._ids = ids
        self.log = log
        self.replaying: set[int] = set()
        """The partitions that are read from their beginning once more."""
        self._unavailable: OrderedDict[MemberKey, tuple[float, float]] = OrderedDict()
        """Of members whose calls get no verdict: the times of the first and of the last such call."""

    # -- serving -----------------------------------------------------------------------------------------------

    def serves(self, member: Member, connection_id: ConnectionId) -> bool:
        """Whether calls of this member on this connection may be served without asking the log."""
        if self.log is None:
            return True
        return self.log.verdict(member.key, connection_id, self._environment.now) is ServeDecision.SERVE

    def knows_who_serves(self, member: Member) -> bool:
        """Whether no other replica can have come to serve a member that is served here without our reading of it."""
        return self.log is not None and self.log.is_ready(member.key)

    def is_served_elsewhere(self, member: Member) -> bool:
        """Whether another replica serves this member, as far as is read; here it can be served at its next try."""
        return self.log is not None and self.log.ownership(member.key) is Ownership.ELSEWHERE

    def heard(self, member: Member, connection_id: ConnectionId | None) -> None:
        """The client of a member that is served here gave a sign of life; a commit does not say where it is (None)."""
        if self.log is not None:
            self.log.heard(member.key, connection_id, self._environment.now)

    def withdraw_confirmations(self, connection_id: ConnectionId) -> None:
        """A connection is closed, or its broker does not coordinate the group any more: it confirms nothing now."""
        if self.log is not None:
            self.log.withdraw_confirmations(connection_id)

    def gives_up_on(self, key: MemberKey) -> bool:
        """Whether a member's calls have had no verdict for so long that its client is to join anew.

        By then the broker has ended the membership, unless the client has been served elsewhere (there it comes back),
        or the coordinator was away meanwhile.
        """
        now, session_s = self._environment.now, self._environment.settings.broker_session_s
        first, last = self._unavailable.pop(key, (now, now))
        if now - last >= session_s:
            first = now  # its client has been elsewhere in between
        self._unavailable[key] = first, now
        if len(self._unavailable) > _UNAVAILABLE_LIMIT:
            self._unavailable.popitem(last=False)
        return now - first >= session_s

    def settled(self, key: MemberKey) -> None:
        """The log has settled something of a member. Its calls have a verdict, unless another replica has won again."""
        if self.log is None or self.log.ownership(key) is not Ownership.ELSEWHERE:
            self._unavailable.pop(key, None)

    def has_begun(self, member: Member) -> None:
        """The broker has a new member: under the id of a classic coordinator the log does not know it yet."""
        if self.log is None:
            return
        key = member.key
        self.log.begun(key)
        if self.log.record(key) is None and member.connection_id is not None:
            self.log.claim(key, member.connection_id, self._environment.now, terms_of(member))

    def has_got_nothing(self, group_id: str, member_id: str) -> bool:
        """Whether a member that the broker describes is served by a replica and has not got an assignment yet."""
        if self.log is None:
            return False
        key = member_key(group_id, member_id)
        record = self.log.record(key) if self.log.is_ready(key) else None
        return record is not None and record.generation == NO_GENERATION

    def has_synced(self, member: Member) -> None:
        """A member's client has got its assignment: it has the generation of its last JoinGroup response."""
        if self.log is not None:
            self.log.synced(member.key, member.generation, self._encoded(member), self._environment.now)

    def has_moved(self, member: Member) -> None:
        """A member's epoch has moved, and its client goes on with what it has."""
        if self.log is not None:
            self.log.moved(member.key, self._encoded(member), self._environment.now)

    def snapshot(self, member: Member) -> Snapshot | None:
        """What the log has of a member whose client may go on without a rejoin; None if there is nothing."""
        record = self.record(member) if self.resumes else None
        return None if record is None else decode_snapshot(record.snapshot)

    @property
    def resumes(self) -> bool:
        """Whether clients may go on without a rejoin at another replica, or on another connection."""
        return self.log is not None and self.log.settings.resumes

    def _encoded(self, member: Member) -> bytes:
        """The snapshot of a member for the log; :data:`NO_SNAPSHOT` unless its client could go on with it elsewhere."""
        snapshot = snapshot_of(member) if self.resumes else None
        return NO_SNAPSHOT if snapshot is None else encode_snapshot(snapshot)

    def record(self, member: Member) -> MemberRecord | None:
        """The record that counts for a member; None if there is none, or no member log."""
        return None if self.log is None else self.log.record(member.key)

    def terms(self, member: Member) -> JoinTerms | None:
        """What the record that counts for a member says of its client, within bounds; None if there is none."""
        return None if self.log is None else self.log.terms(member.key)

    def is_translated(self, group_id: str, member_id: str) -> bool:
        """Whether the log has a member that a replica translates, or did until its end: its id may have any form."""
        record = None if self.log is None else self.log.record(member_key(group_id, member_id))
        return record is not None and record.kind is not Kind.RELAYED

    # -- speaking to the broker --------------------------------------------------------------------------------

    def may_speak_for(self, member: Member) -> bool:
        """Whether an owned list, epoch -1 or -2, or epoch 0 may be sent for a member, as far as is read of the log.

        Also for the id of a classic coordinator that nobody has claimed: no replica has it as a member of the new
        protocol.
        """
        if self.log is None:
            return True
        key = member.key
        if self.log.may_speak_for(key):
            return True
        return self.log.record(key) is None and not is_issued_form(member.member_id)

    def why_not_begin(self, member: Member) -> ErrorCode:
        """The code for a client whose membership must not begin under its id with epoch 0; NONE if it may.

        An epoch 0 that comes late to the broker is an owned list of nothing: what the client works on would be given
        away. So only the process that issued an id sends it, and only until another has served the member.
        """
        if self.log is None:
            return ErrorCode.NONE
        if self.is_served_elsewhere(member):
            # Since the broker was asked. The client takes it over at its next try.
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if is_issued_form(member.member_id) and not self._ids.is_issued(member.member_id):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.may_speak_for(member):
            return ErrorCode.NONE
        # Without a record its earlier JoinGroup was given up here; it may have gone on elsewhere since.
        is_elsewhere = self.log.record(member.key) is not None
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_elsewhere else ErrorCode.UNKNOWN_MEMBER_ID

    def may_keep_alive(self, member: Member) -> bool:
        """Whether heartbeats of the proxy's own may keep a member at the broker: not past its deadline."""
        is_suspended = member.deadlines.suspended_until < math.inf
        return self.log is None or (not is_suspended and self.log.may_keep_alive(member.key))

    def await_group(self, group_id: str) -> None:
        """Have the log say when another replica serves a member of this group (``GroupServed``)."""
        if self.log is not None:
            self.log.await_group(group_id)

    def stop_awaiting(self, group_id: str) -> None:
        """The coordinator of this group has answered here."""
        if self.log is not None:
            self.log.stop_awaiting(group_id)

    # -- ends --------------------------------------------------------------------------------------------------

    def may_end(self, member: Member) -> bool:
        """Whether the log could say that an id is dead, as it must before an epoch -1: not while it is away."""
        return self.log is None or not self.log.settings.expires or self.log.is_ready(member.key)

    def end(self, group_id: str, member_id: str) -> None:
        """The broker has said that a member is gone, or has accepted its LeaveGroup: its id is dead."""
        if self.log is not None and member_id:
            self.log.end(member_key(group_id, member_id), self._environment.now)

    def release(self, member: Member) -> None:
        """A member's record is dropped here: whatever the log says of it is not renewed any more."""
        self.release_key(member.key)

    def release_key(self, key: MemberKey) -> None:
        """No record of a member is here, although the log says that it is served here."""
        if self.log is not None:
            self.log.release(key)


def snapshot_of(member: Member) -> Snapshot | None:
    """The snapshot of a member that is Stable and whose client has all that is assigned, and nothing else; or None."""
    partitions, client, broker = member.partitions, member.client, member.broker
    assignment = partitions.broker_assignment
    if (
        member.state is not MemberState.STABLE
        or member.adopted
        or partitions.pending_revocation
        or not assignment == partitions.synced_assignment == partitions.possibly_owned
        or broker.reply_lost
        or broker.assignor is None
        or broker.subscription != client.subscription
    ):
        return None
    return Snapshot(
        generation=member.generation,
        member_epoch=member.member_epoch,
        assignment=tuple((topic.topic_id, topic.partitions) for topic in to_topics(assignment)),
        subscription=tuple(sorted(client.subscription)),
        protocol_type="consumer",
        protocol_name=client.protocol_name,
        embedded_version=client.embedded_version,
        cooperative=client.cooperative,
        mapped_assignor=client.mapped_assignor,
        assignor=broker.assignor,
        rack=client.rack,
    )


def terms_of(member: Member) -> JoinTerms:
    """What a member's last JoinGroup asked for."""
    client = member.client
    return JoinTerms(client.session_timeout_ms, client.rebalance_timeout_ms, client.instance_id)
