"""The state of one process's translation, in the parts that its functions take.

An object of the translation takes from the context, when it is made, the parts that it needs; a function is given one
or two of them. Only what needs many takes the whole.

======================= ============================================================================================
part                    who uses it
======================= ============================================================================================
``now``, ``actions``    everybody: the time of the call, and what it returns (:class:`Environment`)
``registry``            whoever needs the record of a group or a member
``memberships``         whoever changes a member's state or ends its membership
``events``              whoever reports something to log, metrics and journal
``scheduler``           whoever starts or wakes a procedure
``connections``         whoever answers a request, or asks whether its client is still there, and on which connection
``authorized_groups``   :mod:`translation.admission.authorization` and what learns from the broker's answers
``ids``, ``natives``    whoever has to tell translated, native and classic members apart
``classic_members``     whoever converts a classic member in place
``reach``               whoever learns that a coordinator is in reach or out of it, or ends a dead member id
``lookup``              whoever has the broker describe a member that is not known well enough here
``rules``               whoever asks for the policy's rule of a group
``member_log``          whoever serves a member that another replica may serve, or speaks for it to the broker
``moves``               whoever moves a member of a group that is moved by steps
``router``              whoever handles calls, ends of connections, records or time: a :class:`GroupRouter`, or None
``unowned``             whoever finds partitions that nobody has, or does something about them
``topic_names``         whoever turns topic ids into names
======================= ============================================================================================
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from protocol_codecs import Uuid
from translation.actions import ConnectionId, Release
from translation.engine.authorized_groups import AuthorizedGroups
from translation.engine.classic_members import ClassicMembers
from translation.engine.connections import ClientConnections
from translation.engine.events import Events
from translation.engine.group_router import GroupRouter
from translation.engine.member_log_view import MemberLogView
from translation.engine.member_lookup import MemberLookup
from translation.engine.memberships import Memberships
from translation.engine.reach import Reach
from translation.engine.registry import Registry
from translation.engine.scheduler import Scheduler
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_ids import MemberIds, NativeMembers
from translation.members.procedure import WakeReason
from translation.mending.unowned import UnownedPartitions
from translation.policy.policy import Policy
from translation.policy.rule_cache import RuleCache
from translation.rollout.moves import Moves
from translation.settings import TranslatorSettings

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


class Context(Environment):
    """The parts of one process's knowledge."""

    def __init__(
        self,
        policy: Policy,
        settings: TranslatorSettings,
        new_uuid: Callable[[], str],
        on_member_time: Callable[[Member, float], None],
        on_group_time: Callable[[Group, float], None],
        on_other_rule: Callable[[str], None],
        member_log: "MemberLog | None",
        make_router: Callable[["Context"], GroupRouter] | None = None,
    ) -> None:
        super().__init__(settings)
        self.rules = RuleCache(policy)
        self.topic_names: dict[Uuid, str] = {}
        """By topic id. An id never changes its name, so nothing here gets stale."""
        self.ids = MemberIds(new_uuid, settings.issued_ids_limit)
        self.member_log = MemberLogView(self, self.ids, member_log)
        self.moves = Moves(self, self.rules, member_log, on_other_rule)
        self.unowned = UnownedPartitions(self, self.moves.records, member_log)
        self.natives = NativeMembers(settings.native_members_limit)
        self.classic_members = ClassicMembers(
            settings.classic_members_limit, settings.classic_members_bytes_limit
        )
        self.authorized_groups = AuthorizedGroups(settings.authorized_groups_limit)
        self.connections = ClientConnections(self, self._release, self._awaits_answer)
        self.scheduler = Scheduler(
            self,
            self.connections,
            self.authorized_groups.withdraw,
            self.connection_lost,
            self.member_log.withdraw_confirmations,
        )
        self.events = Events(self, self.connections, self.topic_names)
        self.memberships = Memberships(self, self.events, self.scheduler)
        self.registry = Registry(
            self,
            self.connections,
            self.ids,
            self.natives,
            self.member_log,
            on_member_time=on_member_time,
            on_group_time=on_group_time,
        )
        self.reach = Reach(self, self.registry, self.member_log, self.connections, self.authorized_groups)
        self.lookup = MemberLookup(self.registry, self.member_log)
        self.router = None if make_router is None else make_router(self)

    # -- connections -------------------------------------------------------------------------------------------

    def uses(self, connection_id: ConnectionId, group_id: str) -> None:
        """A client calls for a group that is not translated: what is known of its move is kept if it may act in it."""
        if self.authorized_groups.includes(connection_id, group_id):
            self.moves.use(group_id)

    def connection_lost(self, connection_id: ConnectionId) -> None:
        """Handle the end of both sides of a connection: calls on it get no response."""
        waiting = self.connections.members_on(connection_id)
        self.connections.upstream_lost(connection_id)
        for member in waiting:
            if not member.group.connected:
                self.reach.lose_sight(member.group)
        self.authorized_groups.forget(connection_id)
        self.member_log.withdraw_confirmations(connection_id)
        self.abandon_joins(waiting, connection_id)
        self.scheduler.connection_lost(connection_id)

    def abandon_joins(self, members: Iterable[Member], connection_id: ConnectionId) -> None:
        """End the JoinGroups of these members that wait on this connection."""
        for member in members:
            if member.join.waiting is not None and member.join.waiting.connection_id == connection_id:
                self.scheduler.wake(member.join.waiting, WakeReason.ABANDONED)

    def _awaits_answer(self, connection_id: ConnectionId) -> bool:
        return self.scheduler.is_busy(connection_id)

    def _release(self, connection_id: ConnectionId) -> None:
        self.authorized_groups.forget(connection_id)
        self.actions.append(Release(connection_id))


def replaced(message: Any, **changes: Any) -> Any:
    """A copy of an immutable message with other values in some fields."""
    return msgspec.structs.replace(message, **changes)
