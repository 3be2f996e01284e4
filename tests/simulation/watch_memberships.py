"""Keeps the standing of each client up to date: what calls, answers and other processes make of its membership.

Checks nothing. :mod:`tests.simulation.standing` says what a standing means, the other ``watch_*`` files what follows.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import decode_subscription
from tests.simulation.standing import MEMBERSHIP_IS_OVER, Pid, Standing
from tests.simulation.violation import Violation
from tests.simulation.wire import GROUP, Ask, codes_in
from translation.actions import Call, Event, EventKind
from translation.members.conversion import is_helper
from translation.members.member_state import MemberEvent

if TYPE_CHECKING:
    from tests.simulation.clients.caller import Caller
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch


_NOT_THERE = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)
"""What a coordinator answers to a heartbeat of a membership that it does not have."""


class MembershipWatch:
    """Follows JoinGroup and SyncGroup of each client, and who takes its member id or instance id over."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self.has_converted = False
        """Whether a member was converted in place."""
        self.without_vote: set[str] = set()
        """Members that were converted in place and have named no assignor since: the broker keeps one from before."""
        self._ids: dict[Any, dict[Pid, tuple[str, int]]] = {}

    # -- clients ---------------------------------------------------------------------------------------------------

    def renewed(self, client: "Caller") -> None:
        """A client takes over an assignment: its contract begins anew."""
        standing = self._watch.standings[client]
        standing.renew()
        if standing.replaced:
            standing.end("another process has its instance id")
        gone = standing.member_id and standing.member_id not in self._watch.broker.members()
        if gone and self._watch.ownership.was_cut_off(standing):
            standing.end("the broker's own timeout passed while it was cut off")

    def join_asked(self, client: "Caller", ask: Ask) -> None:
        """A client sends JoinGroup: what it works on without claiming it is no longer its own."""
        standing = self._watch.standings[client]
        standing.disowned = client.held - _claimed(client, ask)
        if standing.disowned:
            self._watch.count("vice: claims less than it holds")

    def ids_for(self, client: "Caller", named: Iterable[tuple[str, int]]) -> dict[Pid, tuple[str, int]]:
        """Return the partitions that a SyncGroup answer meant by these names."""
        wanted = frozenset(named)
        known = self._ids.get(client, {})
        return {pid: name for pid, name in known.items() if name in wanted}

    # -- calls that a proxy reads ----------------------------------------------------------------------------------

    def call_arrived(self, client: "Caller", ask: Ask) -> None:
        """A proxy has read a call of a client."""
        standing = self._watch.standings[client]
        match ask.api_key:
            case ApiKey.JOIN_GROUP:
                standing.joins_waiting.add(ask.number)
                standing.asked_to_rejoin_ms = standing.joined_ms = None
                if not ask.message.member_id:  # with an id from before it takes nothing back
                    standing.replaced = False
                if ask.message.group_instance_id is not None:
                    if not ask.message.member_id:
                        standing.taking_over.add(ask.number)
                    self._replaces(client, ask.message)
            case ApiKey.SYNC_GROUP:
                standing.joined_ms = None

    @staticmethod
    def abandoned(standing: Standing, ask: Ask) -> None:
        """A proxy hears that a client does not wait for an answer any more."""
        standing.taking_over_late.discard(ask.number)
        if ask.number in standing.joins_waiting:
            standing.abandoned_join = True
            standing.joins_waiting.discard(ask.number)
            standing.heard()

    def spoken_for(self, ask: Ask) -> None:
        """Somebody else with READ on the group sends a call in a member's name.

        For one of several processes the client has moved to another connection, and is away when that one ends.
        """
        standing = self._watch.client_of.get(getattr(ask.message, "member_id", ""))
        if standing is not None:
            standing.moved = True

    def told_in_its_place(self, ask: Ask, message: Any) -> None:
        """Somebody else with READ on the group was told in a member's name that it has to rejoin.

        For the proxy, as for a broker, the member's time to do so runs from then on.
        """
        standing = self._watch.client_of.get(getattr(ask.message, "member_id", ""))
        told = ErrorCode.REBALANCE_IN_PROGRESS in codes_in(message)
        if told and standing is not None and standing.asked_to_rejoin_ms is None:
            standing.asked_to_rejoin_ms = self._watch.kernel.now_ms

    # -- static members --------------------------------------------------------------------------------------------

    def _replaces(self, client: "Caller", join: Any) -> None:
        """The classic contract: a process that joins without a member id takes the instance id over."""
        for other in self._watch.standings.values():
            same_instance = other.instance_id == join.group_instance_id and other.client is not client
            if same_instance and (not join.member_id or other.client.start_number < client.start_number):
                other.end("another process has its instance id")
                other.replaced = True

    def _has_replaced(self, standing: Standing) -> None:
        """A process with an instance id was let in: older ones have lost it, whatever they sent meanwhile."""
        for other in self._watch.standings.values():
            if (
                other.instance_id is not None
                and other.instance_id == standing.instance_id
                and other.client.start_number < standing.client.start_number
            ):
                other.end("another process has its instance id")
                other.replaced = True

    # -- answers ---------------------------------------------------------------------------------------------------

    def join_answered(
        self, process: "ProxyProcess", standing: Standing, ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        """A proxy answers a JoinGroup itself: its client is a translated member."""
        standing.join_is_answered(ask.number)
        standing.heard_ms = self._watch.kernel.now_ms
        if message.error_code != ErrorCode.NONE:
            return
        if not arrives and message.member_id != standing.member_id:
            return  # its client never hears of this membership, and has another one or none
        self._has_replaced(standing)
        self._watch.client_of[message.member_id] = standing
        gone = message.member_id not in self._watch.broker.members()
        if gone and self._watch.ownership.was_cut_off(standing):
            standing.end("the broker's own timeout passed while it was cut off")
        is_new = standing.member_id != message.member_id or standing.joined_at is None
        if is_new or standing.excuse() is not None:  # its membership had ended: generations of it are over
            standing.generation = standing.previous_generation = -1
        standing.member_id = message.member_id
        standing.classic = False
        standing.answered_ms = self._watch.kernel.now_ms
        served_by = process.name, process.incarnation
        # A process that adopts a member does not know its generation: the one before this one is the same unknown.
        if standing.joined_at != served_by:
            standing.previous_generation = -1
        elif standing.synced:  # else it may not have heard the answer before this one
            standing.previous_generation = standing.generation
        standing.joined_at = served_by
        standing.generation = message.generation_id
        standing.synced = standing.abandoned_join = standing.moved_late = False
        standing.joined_ms = self._watch.kernel.now_ms
        _, subscription = decode_subscription(ask.message.protocols[0].metadata)
        names = {name: topic.topic_id for name, topic in self._watch.broker.image.topics.items()}
        standing.claims = frozenset(
            (names.get(owned.topic), index)
            for owned in subscription.owned_partitions
            for index in owned.partitions
        )

    def classic_join_answered(self, standing: Standing, ask: Ask, message: Any, *, arrives: bool) -> None:
        """The broker answers a JoinGroup: its client is a classic member.

        Unless the answer does not reach the client, and the client is a member under another id by now: a process that
        stood still hands on an answer that came before that.
        """
        standing.join_is_answered(ask.number)
        standing.heard_ms = self._watch.kernel.now_ms
        if message.error_code == ErrorCode.NONE:
            if not arrives and message.member_id != standing.member_id:
                return
            self._has_replaced(standing)
            self._watch.client_of[message.member_id] = standing
            standing.member_id = message.member_id
            standing.joined_at = None
            standing.classic = True
            standing.answered_ms = self._watch.kernel.now_ms
            standing.generation, standing.synced = message.generation_id, False
        elif message.error_code in MEMBERSHIP_IS_OVER:
            standing.end("the broker told it that its membership is over")

    def sync_answered(self, process: "ProxyProcess", standing: Standing) -> None:
        """A proxy answers a SyncGroup itself: its client gets the synced assignment."""
        member = process.translator._context.registry.find(GROUP, standing.member_id)
        assert member is not None, "SyncGroup was answered for a member that is not known"
        names = process.translator._context.topic_names
        synced = member.partitions.synced_assignment
        self._ids[standing.client] = {pid: (names[pid[0]], pid[1]) for pid in synced}
        standing.handed = synced
        standing.given = {member.partitions.broker_assignment}
        standing.synced = True
        standing.synced_ms = self._watch.kernel.now_ms
        standing.asked_to_rejoin_ms = None

    def classic_sync_answered(self, client: "Caller") -> None:
        """The broker answers a SyncGroup: names mean the topics that exist now."""
        self._watch.standings[client].synced_ms = self._watch.kernel.now_ms
        self._ids[client] = {
            (topic.topic_id, index): (topic.name, index)
            for topic in self._watch.broker.image.topics.values()
            for index in range(topic.partitions)
        }

    # -- requests of the proxy's own -------------------------------------------------------------------------------

    def called(self, process: "ProxyProcess", call: Call) -> None:
        """The translation sends a request upstream, which may begin a membership for a client."""
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            self._watch.log.called(process, call.message.member_id, call.message.member_epoch)
            if call.message.server_assignor is not None:
                self.without_vote.discard(call.message.member_id)
            if call.message.member_epoch == 0 and not is_helper(call.message.member_id):
                client = process.connections[call.connection_id].client.near
                self._watch.standings[client].joins_as = call.message.member_id
        elif call.api_key == ApiKey.JOIN_GROUP:
            client = process.connections[call.connection_id].client.near
            self.goes_to_the_broker(self._watch.standings[client], call.message)

    @staticmethod
    def goes_to_the_broker(standing: Standing, join: Any) -> None:
        """A proxy sends the JoinGroup of a classic member to the broker, or of a client that is to be one."""
        standing.joins_at_the_broker = True
        if join.group_instance_id is not None and not join.member_id:
            standing.took_over.append((join, False))

    def takeover_served(self, join: Any, before: str, after: str) -> None:
        """The broker has served a JoinGroup; ``before`` and ``after`` are the members with its instance id.

        A proxy can't call back what it has sent. If a connection holds up a JoinGroup without a member id, its client
        loses patience and joins on another one, and the broker serves the older one last, that takes the instance id
        over from the same client, which never hears of it. So it is without a proxy.
        """
        for standing in self._watch.standings.values():
            for number, (sent, _) in enumerate(standing.took_over):
                if sent is join:
                    newer_was_served = any(is_served for _, is_served in standing.took_over[number + 1 :])
                    standing.took_over[number] = join, True
                    if newer_was_served and after != before and self._watch.client_of.get(before) is standing:
                        standing.displaced = before

    def learn_assignment(self, call: Call, message: Any) -> None:
        """Record what the broker assigned to a member in answer to a request of the proxy's own."""
        if call.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return
        standing = self._watch.client_of.get(call.message.member_id)
        if standing is not None and message.error_code == ErrorCode.NONE:
            standing.epoch_heard = message.member_epoch
        if standing is not None and message.assignment is not None:
            standing.given.add(
                frozenset((t.topic_id, i) for t in message.assignment.topic_partitions for i in t.partitions)
            )

    def heartbeat_served(self, message: Any, response: Any) -> None:
        """The broker has served a heartbeat. It may have been held up, and others overtook it on other connections.

        After a lost answer the broker accepts the epoch before its own, so one that is as late as that still counts,
        may subscribe to other topics, and may move the epoch on. Nobody may get the answer. At the next heartbeat the
        epoch is fenced, and the client has to rejoin, because what it was assigned at the newest epoch is not known.
        """
        standing = self._watch.client_of.get(message.member_id)
        if standing is not None and response.error_code == ErrorCode.NONE:
            late = 0 < message.member_epoch < standing.epoch_heard < response.member_epoch
            standing.moved_late = standing.moved_late or late

    def answered_from_old_state(self, ask: Ask, response: Any) -> None:
        """A deposed coordinator answers. If it has no such membership, nobody can tell that there is one by now.

        It says so to members of the new protocol too, which then begin anew. The membership at the new coordinator ends
        with its session there.
        """
        if getattr(response, "error_code", ErrorCode.NONE) in _NOT_THERE:
            standing = self._watch.client_of.get(getattr(ask.message, "member_id", ""))
            if standing is not None and standing.member_id == ask.message.member_id:
                standing.end("a deposed coordinator has no such membership")

    def expired(self, process: "ProxyProcess", member_id: str) -> None:
        """A process ends a membership.

        The first call on a connection is no sign of life before the broker has accepted it. If the session ends while
        the broker is asked, or after the connection broke meanwhile and before another call, it has ended.
        """
        standing = self._watch.client_of.get(member_id)
        if standing is not None and (
            process.is_asking_about(standing.client) or standing.question_lost_ms >= standing.heard_ms
        ):
            standing.end("its session ended before the broker had accepted its new connection")

    def question_lost(self, client: Any) -> None:
        """A connection broke while the broker was asked what its client may do."""
        if client in self._watch.standings:
            self._watch.standings[client].question_lost_ms = self._watch.kernel.now_ms

    def emitted(self, process: "ProxyProcess", event: Event) -> None:
        """A process reports an event: one that adopts a member does not know its generation."""
        standing = self._watch.client_of.get(event.member_id)
        if event.kind in (EventKind.SESSION_EXPIRED, EventKind.REBALANCE_EXPIRED):
            self._watch.log.expired(process, event.member_id)
        if event.kind is EventKind.SESSION_EXPIRED:
            self.expired(process, event.member_id)
        if standing is None:
            return
        if event.kind is EventKind.STATE_CHANGED and event.reason == MemberEvent.TAKEN:
            # A replica that has lost a member and gets it back knows no more of it than one that never had it.
            if standing.joined_at == (process.name, process.incarnation):
                standing.joined_at = None
            return
        if event.kind is not EventKind.ADOPTED:
            return
        if event.reason.startswith(MemberEvent.CONVERTED):
            self._converted(process, standing)
            return
        alone = process.translator._context.settings.sole_process
        cut_off = not alone and standing.broken_ms >= standing.answered_ms
        if standing.moved or cut_off or standing.excuse() is not None:
            standing.joined_at = None

    def _converted(self, process: "ProxyProcess", standing: Standing) -> None:
        """A process has converted a classic member in place: its client goes on with all that it has."""
        self._watch.count("members converted in place")
        self.has_converted = True
        self.without_vote.add(standing.member_id)
        member = process.translator._context.registry.find(GROUP, standing.member_id)
        assert member is not None, "a member was converted that is not known"
        held = member.partitions.synced_assignment
        working = {pid for pid in standing.client.held if self._watch.broker.image.by_id(pid[0]) is not None}
        if standing.excuse() is None and not working - standing.disowned <= held:
            story = self._watch.story
            raise Violation(2, f"{standing.client} is converted without {story.partitions(working - held)}")
        standing.classic = False
        standing.answered_ms = self._watch.kernel.now_ms
        standing.joined_at = process.name, process.incarnation
        standing.generation, standing.previous_generation = member.generation, -1
        standing.synced, standing.moved_late = True, False
        standing.claims, standing.handed = frozenset(), held
        standing.given = {member.partitions.broker_assignment}
        self._goes_on_by_name(standing.client, held, process.translator._context.topic_names)

    def _goes_on_by_name(self, client: "Caller", held: frozenset[Pid], names: Mapping[Any, str]) -> None:
        """A classic assignment is of names: its client goes on with a topic that was created again meanwhile."""
        now = {(names[topic_id], index): (topic_id, index) for topic_id, index in held}
        topics = self._watch.broker.image
        old = {pid for pid in client.held if topics.by_id(pid[0]) is None and client.names[pid] in now}
        if old:
            renewed = {now[client.names[pid]]: client.names[pid] for pid in old}
            client.names.update(renewed)
            self._ids[client] = self._ids.get(client, {}) | renewed
            client.hold(client.held - old | renewed.keys())


def _claimed(client: "Caller", ask: Ask) -> frozenset[Pid]:
    """Return those of its partitions that a client's JoinGroup names."""
    _, subscription = decode_subscription(ask.message.protocols[0].metadata)
    names = {(owned.topic, index) for owned in subscription.owned_partitions for index in owned.partitions}
    return frozenset(pid for pid in client.held if client.names.get(pid) in names)
