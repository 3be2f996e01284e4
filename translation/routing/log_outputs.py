"""What follows from what the member log finds of members: which calls may go on, and which memberships are over here.

The member log is asked by :mod:`translation.admission.serving` (who serves a member) and
:mod:`translation.membership.expiry` (whether a silent client's membership may be ended). What it says comes later, when
its records are read back.
"""

from collections.abc import Sequence

from translation.conversion.stand_in import StandIn
from translation.engine.context import Context
from translation.engine.reach import END_AGAIN_S
from translation.member_log.outputs import (
    Dying,
    Ended,
    Expired,
    ExpiryBegan,
    GroupServed,
    Health,
    HealthChanged,
    OtherRecordCounts,
    Output,
    Serving,
    Settled,
    Taken,
)
from translation.member_log.records import LENGTH_OF_HASH, MemberKey, member_key
from translation.members.environment import Environment
from translation.members.member import Member
from translation.membership.expiry import Expiry
from translation.moving.judging import MoveJudge


class LogOutputs:
    """Dispatches the outputs of the member log."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._classic_members = context.classic_members
        self._member_log = context.member_log
        self._memberships = context.memberships
        self._moves = context.moves
        self._registry = context.registry
        self._router = context.router
        self._scheduler = context.scheduler
        self._reach = context.reach
        self._expiry = Expiry(context)
        self._judge = MoveJudge(context)
        self._stand_in = StandIn(context)

    def handle_outputs(self, outputs: Sequence[Output]) -> None:
        """Handle what the log says, in order."""
        ready: set[int] = set()
        for output in outputs:
            match output:
                case Settled(key):
                    self._settled(key)
                case GroupServed(group_id) if group_id in self._registry.groups:
                    self._reach.in_reach(self._registry.groups[group_id])
                case HealthChanged(partition, Health.REPLAYING):
                    self._member_log.replaying.add(partition)
                case HealthChanged(partition, Health.READY):
                    ready.add(partition)
                    if partition in self._member_log.replaying:
                        self._member_log.replaying.discard(partition)
                        self._forget_what_is_older(partition)
                    self._moves.look_through()
                case ExpiryBegan():
                    self._reach.expiry_began()
                case Taken() | Expired() | Ended() | Dying() | OtherRecordCounts():
                    self._of_member(output)
        self._reach.log_is_ready(frozenset(ready))
        for output in outputs:
            if isinstance(output, Serving) and self._registry.find_key(output.key) is None:
                self._member_log.release_key(output.key)  # the call that claimed it is over

    def _of_member(self, output: Taken | Expired | Ended | Dying | OtherRecordCounts) -> None:
        key = output.key
        match output:
            case Taken():
                member = self._registry.find_key(key)
                if member is not None:
                    self._expiry.drop_taken(member)
            case Expired():
                member = self._registry.find_key(key)
                if member is None:
                    self._remember_dead(key)
                else:
                    self._expired(member)
            case Ended():
                self._heartbeat_the_others(key)
            case Dying():
                self._remember_dead(key)
            case OtherRecordCounts():
                self._classic_members.outdated(key.group_id, key.member_id, self._environment.now)

    def _settled(self, key: MemberKey) -> None:
        """Have whoever waits for a verdict on a member, or on a whole group, go on."""
        self._member_log.settled(key)
        self._scheduler.settled(key)
        self._moves.settled(key)
        if self._router is not None:
            self._router.record_settled(key)
        self._judge.settled(key)

    def _forget_what_is_older(self, partition: int) -> None:
        """Forget what the classic members own in a partition that was replayed, if another replica's record counts
        there.

        While it was replayed no record was reported.
        """
        log, known = self._member_log.log, self._classic_members
        if log is None:
            return
        here = {group_id for group_id in known.groups() if log.partition_of(group_id) == partition}
        for group_id, member_id in known.of(here) if here else ():
            if log.is_of_another(member_key(group_id, member_id)):
                known.outdated(group_id, member_id, self._environment.now)

    def _heartbeat_the_others(self, key: MemberKey) -> None:
        """A member has left through another replica: heartbeat those of its group here, as that one does for its own.

        Else each of them would learn of its new partitions only at its client's second Heartbeat from now: the first
        makes the broker compute the assignment. A group with an id so long that the log has a hash of it is not found.
        """
        group = self._registry.groups.get(key.group_id)
        if group is not None:
            group.ended_at = self._environment.now
            self._memberships.heartbeat_group(group)

    def _remember_dead(self, key: MemberKey) -> None:
        """Another replica ends a member, or it is forgotten here: see to it that the broker ends it.

        A group or a member with an id so long that the log has a hash of it is not found.
        """
        if LENGTH_OF_HASH not in (len(key.group_id), len(key.member_id)):
            group = self._registry.group(key.group_id)
            self._reach.remember_dead(group, key.member_id, self._environment.now + END_AGAIN_S)

    def _expired(self, member: Member) -> None:
        """The id of a member whose timeout has passed is dead: end its membership, and have epoch -1 sent in its turn.

        Without a connection in its group it is sent when there is one, here or at another replica, or by whoever meets
        the id.
        """
        if not member.joined or member.member_id in member.group.leaving:
            return  # who ends it waits for this (translation.conversion.old_membership)
        connection_id = self._reach.connection_to_end(member)
        if connection_id is not None:
            steps = self._expiry.remove_dead(member)
            self._scheduler.start(
                self._stand_in.end_behind_helper(member.group, member.member_id, connection_id, steps),
                member.queue,
                connection_id,
                member.client.client_id,
                ends_session=True,
            )
        else:
            self._reach.remember_dead(member.group, member.member_id, self._environment.now + END_AGAIN_S)
        # At once: no call that is under way is answered as if it were still a member.
        self._expiry.forget_expired(member)
