"""The observer: sees every call, answer and change of ownership, keeps the story, and checks the invariants.

Chapter 4 of the design, as it is checked here:

1. ``holds``: no two clients within their contract hold a partition of the same topic id. ``expired``: the broker's
   own timeouts end no membership of a client that is within its contract and was not cut off.
2. ``called``: nothing that is sent upstream (an owned list, epoch -1 or -2) would release a partition that a client
   within its contract works on. ``released``: nor does the broker release one when it arrives, however late that is.
3. ``answered``: a commit with the current generation is accepted; one with an old generation is not.
   ``said``: no commit with an old generation is accepted for a partition that somebody else, and not the committer,
   holds by contract. One with the current generation is: a generation is all that brokers look at.
4. :mod:`tests.simulation.settling`: when faults have ended, what clients hold becomes what the broker wants.
5. ``timed_out`` and :mod:`tests.simulation.proxy_process`: one answer for each request, in order; and for a Heartbeat
   within a time that keeps its session alive (:mod:`tests.simulation.promptness`).
6. ``answered``: REBALANCE_IN_PROGRESS only if the broker gave this member another assignment since its SyncGroup, or
   it claimed what was withheld, or another process adopted it; no other ending of a membership without a cause (one
   is that the policy changed, after which the client is within its contract until it has given up everything); and
   only codes that this API's old clients know.
7. :mod:`tests.simulation.watch_hostile`: a connection without READ on the group makes no difference to anybody.
8. :mod:`tests.simulation.watch_natives`: a member of the new protocol is left alone.

While the policy lets the group pass through, its members are classic ones, and what the broker itself does to them is
not judged. What the proxy does to them is: it ends no classic membership of a client that works on something (2).

What "within its contract" means is in :mod:`tests.simulation.standing`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coordinator.consumer_groups.member import STATIC_LEAVE_EPOCH
from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import decode_subscription
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link
from tests.simulation.promptness import Promptness
from tests.simulation.standing import Pid, Standing
from tests.simulation.story import Story, short
from tests.simulation.wire import Ask, Reply
from translation.actions import Call, Event, EventKind

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.clients.caller import Caller
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch_hostile import HostileWatch
    from tests.simulation.watch_natives import NativeWatch

_E = ErrorCode
MEMBERSHIP_IS_OVER = frozenset({_E.UNKNOWN_MEMBER_ID, _E.ILLEGAL_GENERATION, _E.FENCED_INSTANCE_ID})
_OVER = MEMBERSHIP_IS_OVER
_TRANSIENT = frozenset({_E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE})

CODES: dict[int, frozenset[ErrorCode]] = {
    ApiKey.HEARTBEAT: _OVER | _TRANSIENT | {_E.NONE, _E.REBALANCE_IN_PROGRESS},
    ApiKey.SYNC_GROUP: _OVER | _TRANSIENT | {_E.NONE, _E.REBALANCE_IN_PROGRESS},
    ApiKey.JOIN_GROUP: _TRANSIENT
    | {_E.NONE, _E.MEMBER_ID_REQUIRED, _E.FENCED_INSTANCE_ID, _E.COORDINATOR_LOAD_IN_PROGRESS},
    ApiKey.OFFSET_COMMIT: _OVER
    | _TRANSIENT
    | {_E.NONE, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.UNKNOWN_TOPIC_OR_PARTITION, _E.REBALANCE_IN_PROGRESS},
    ApiKey.LEAVE_GROUP: frozenset(_E),
    ApiKey.OFFSET_FETCH: frozenset(_E),
}
"""What an answer may say. Everything else is fatal in some old client."""


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"invariant {number}: {text}")
        self.number = number


class Watch:
    """See the module."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.story = Story()
        self.broker: Broker
        self.hostile: HostileWatch
        self.natives: NativeWatch
        self.observers: dict[Any, Any] = {}
        """Who looks at what a proxy does for a client, if that is not this one: the hostile ones, and natives."""
        self.standings: dict[Any, Standing] = {}
        self.client_of: dict[str, Standing] = {}
        """Who uses a member id."""
        self.last_fault_ms = -(10**9)
        self.counts: dict[str, int] = {}
        self._holders: dict[Pid, list[Any]] = {}
        self._ids: dict[Any, dict[Pid, tuple[str, int]]] = {}
        self._commits: dict[tuple[Any, int], bool | None] = {}
        self._promptness = Promptness()
        self._broker_said: Any = None
        """The last answer of the broker to a request of the proxy's own."""

    # -- the story -------------------------------------------------------------------------------------------------

    def tell(self, who: Any, what: str, thing: Any = None) -> None:
        self.story.tell(self.kernel.now_ms, str(who), what, thing)

    def aside(self, who: Any, what: str, thing: Any = None) -> None:
        """Tell something that only concerns a hostile connection."""
        self.story.tell(self.kernel.now_ms, str(who), what, thing, aside=True)

    def note(self, who: Any, what: str) -> None:
        self.tell(who, what)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def fault(self, what: str) -> None:
        """Something goes wrong from outside."""
        self.last_fault_ms = self.kernel.now_ms
        self.count("faults")
        self.tell("** fault", what)

    # -- clients ---------------------------------------------------------------------------------------------------

    def began(self, client: "Caller") -> None:
        self.standings[client] = Standing(client, self.kernel)
        self.tell(client, "starts")

    def stopped(self, client: "Caller", why: str) -> None:
        self.standings[client].end(why)
        self.tell(client, why)

    def leaving(self, client: "Caller") -> None:
        self.standings[client].end("it left")

    def renewed(self, client: "Caller") -> None:
        """A client takes over an assignment: its contract begins anew."""
        standing = self.standings[client]
        standing.renew()
        if standing.replaced:
            standing.end("another process has its instance id")
        gone = standing.member_id and standing.member_id not in self.broker.members()
        if gone and self._was_cut_off(standing):
            standing.end("the broker's own timeout passed while it was cut off")

    def holds(self, client: "Caller", before: frozenset[Pid], held: frozenset[Pid]) -> None:
        self.tell(client, "works on", held)
        for pid in before - held:
            self._holders[pid].remove(client)
        for pid in sorted(held - before):
            others = self._holders.setdefault(pid, [])
            for other in others:
                if self._has_right(client, pid) and self._has_right(other, pid):
                    raise Violation(1, f"{self.story.partitions([pid])} is held by {other} and by {client}")
            others.append(client)

    def _has_right(self, client: "Caller", pid: Pid) -> bool:
        """Whether a client may work on a partition that it holds."""
        standing = self.standings[client]
        return pid not in standing.disowned and standing.excuse() is None

    def asked(self, client: "Caller", link: Link, ask: Ask) -> None:
        if ask.api_key != ApiKey.FETCH:
            self.tell(client, f"-> {link}", ask.message)
        if ask.api_key == ApiKey.JOIN_GROUP:
            standing = self.standings[client]
            standing.disowned = client.held - self._claimed(client, ask)
            if standing.disowned:
                self.count("vice: claims less than it holds")
        elif ask.api_key == ApiKey.OFFSET_COMMIT:
            self.standings[client].committed_with.update(
                ((topic.name, one.partition_index, one.committed_offset), _generation(ask.message))
                for topic in ask.message.topics
                for one in topic.partitions
            )

    def got(self, client: "Caller", ask: Ask | None, reply: Reply) -> None:
        if ask is None or ask.number != reply.number:
            raise Violation(5, f"{client} got an answer out of order")
        if ask.api_key != ApiKey.FETCH:
            self.tell(client, "<-", reply.message)

    def timed_out(self, client: "Caller", link: Link, ask: Ask, asked_ms: int) -> None:
        self.tell(client, f"gives up waiting on {link} for the answer to", ask.message)
        # The broker itself never answers a JoinGroup that another one of the same classic member has overtaken, be it
        # an older one, on a connection that has broken and not ended there yet.
        standing = self.standings[client]
        by_the_broker = standing.classic or standing.joins_at_the_broker
        if self.last_fault_ms < asked_ms and not by_the_broker:
            raise Violation(5, f"{client} got no answer to {self.story.message(ask.message)}")

    def lost_line(self, client: "Caller", link: Link) -> None:
        self.standings[client].break_off()
        self.tell(client, f"has lost {link}")

    def ids_for(self, client: "Caller", named: Iterable[tuple[str, int]]) -> dict[Pid, tuple[str, int]]:
        """The partitions that a SyncGroup answer meant by these names."""
        wanted = frozenset(named)
        known = self._ids.get(client, {})
        return {pid: name for pid, name in known.items() if name in wanted}

    def topics(self) -> dict[str, Any]:
        """What Metadata would say."""
        return dict(self.broker.image.topics)

    def partition_counts(self) -> dict[str, int]:
        return {name: topic.partitions for name, topic in self.broker.image.topics.items()}

    # -- the proxy -------------------------------------------------------------------------------------------------

    def process_died(self, process: "ProxyProcess") -> None:
        self.tell(process, "dies")

    def call_arrived(self, process: "ProxyProcess", client: "Caller", ask: Ask) -> None:
        """A proxy has read a call of a client."""
        standing = self.standings[client]
        standing.heard()
        self._promptness.asked(standing, ask, self.kernel.now_ms)
        match ask.api_key:
            case ApiKey.JOIN_GROUP:
                standing.joins_waiting.add(ask.number)
                standing.asked_to_rejoin_ms = standing.joined_ms = None
                standing.replaced = False
                if ask.message.group_instance_id is not None:
                    if not ask.message.member_id:
                        standing.taking_over.add(ask.number)
                    self._replaces(client, ask.message)
            case ApiKey.SYNC_GROUP:
                standing.joined_ms = None
            case ApiKey.OFFSET_COMMIT:
                self._commits[client, ask.number] = self._may_commit(standing, process, ask)

    @staticmethod
    def _claimed(client: "Caller", ask: Ask) -> frozenset[Pid]:
        """What of its partitions a client's JoinGroup names."""
        _, subscription = decode_subscription(ask.message.protocols[0].metadata)
        names = {
            (owned.topic, index) for owned in subscription.owned_partitions for index in owned.partitions
        }
        return frozenset(pid for pid in client.held if client.names.get(pid) in names)

    def deserted(self, client: "Caller", ask: Ask) -> None:
        """A proxy hears that a client does not wait for an answer any more."""
        standing = self.standings[client]
        self._check_promptness(standing, ask)
        if ask.number in standing.joins_waiting:
            standing.deserted_join = True
            standing.joins_waiting.discard(ask.number)
            standing.heard()

    def _replaces(self, client: "Caller", join: Any) -> None:
        """The classic contract: a process that joins without a member id takes the instance id over."""
        for other in self.standings.values():
            same_instance = other.instance_id == join.group_instance_id and other.client is not client
            if same_instance and (not join.member_id or other.client.born < client.born):
                other.end("another process has its instance id")
                other.replaced = True

    def _has_replaced(self, standing: Standing) -> None:
        """A process with an instance id was let in: older ones have lost it, whatever they sent meanwhile."""
        for other in self.standings.values():
            if (
                other.instance_id is not None
                and other.instance_id == standing.instance_id
                and other.client.born < standing.client.born
            ):
                other.end("another process has its instance id")
                other.replaced = True

    def _may_commit(self, standing: Standing, process: "ProxyProcess", ask: Ask) -> bool | None:
        """Whether a commit must be accepted (True) or refused (False); None if it can't be said."""
        generation = ask.message.generation_id_or_member_epoch
        if standing.joined_at != (process.name, process.incarnation) or standing.joins_waiting:
            return None
        if ask.message.member_id != standing.member_id:
            return None
        if generation == standing.generation:
            return True
        if generation == standing.previous_generation and not standing.synced:
            return True
        if standing.previous_generation < generation < standing.generation and not standing.synced:
            return None  # of a JoinGroup that was answered and answered again, maybe
        if standing.excuse() is not None:
            return None  # forgotten here, and maybe adopted again: then its generation is not known
        return None if standing.previous_generation < 0 and not standing.synced else False

    def answered(
        self, process: "ProxyProcess", client: "Caller", ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        """A proxy answers a call itself; ``arrives`` says whether the connection is whole."""
        standing = self.standings[client]
        self._check_promptness(standing, ask)
        codes = codes_in(message)
        if ask.api_key == ApiKey.JOIN_GROUP and message is self._broker_said:
            self._joined_classic(standing, ask, message)
            return
        for code in codes if arrives else ():
            ended = code == ErrorCode.UNKNOWN_MEMBER_ID and ask.api_key == ApiKey.JOIN_GROUP
            if ended and standing.excuse() is not None:
                continue  # it left on another connection while its JoinGroup waited
            if code not in CODES[ask.api_key]:
                name = f"{ApiKey(ask.api_key).name} with {ErrorCode(code).name}"
                raise Violation(6, f"{client} is answered {name}, which old clients do not survive")
        match ask.api_key:
            case ApiKey.JOIN_GROUP:
                self._join_answered(process, standing, ask, message, arrives=arrives)
            case ApiKey.SYNC_GROUP if message.error_code == ErrorCode.NONE:
                self._sync_answered(process, standing)
            case ApiKey.OFFSET_COMMIT:
                self._commit_answered(standing, ask, codes)
            case ApiKey.LEAVE_GROUP:
                return
        if ErrorCode.REBALANCE_IN_PROGRESS in codes:
            self._start_rebalance_timeout(process, standing)
        for code in codes & _OVER if arrives else ():
            self._told_it_is_over(process, standing, ask, ErrorCode(code))

    def _join_answered(
        self, process: "ProxyProcess", standing: Standing, ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        standing.joins_waiting.discard(ask.number)
        standing.joins_at_the_broker = False
        standing.heard_ms = self.kernel.now_ms
        if message.error_code != ErrorCode.NONE:
            return
        if not arrives and message.member_id != standing.member_id:
            return  # its client never hears of this membership, and has another one or none
        self._has_replaced(standing)
        self.client_of[message.member_id] = standing
        if message.member_id not in self.broker.members() and self._was_cut_off(standing):
            standing.end("the broker's own timeout passed while it was cut off")
        if standing.member_id != message.member_id or standing.joined_at is None:
            standing.generation = standing.previous_generation = -1
        standing.member_id = message.member_id
        standing.classic = False
        standing.answered_ms = self.kernel.now_ms
        served_by = process.name, process.incarnation
        # A process that adopts a member does not know its generation: the one before this one is the same unknown.
        if standing.joined_at != served_by:
            standing.previous_generation = -1
        elif standing.synced:  # else it may not have heard the answer before this one
            standing.previous_generation = standing.generation
        standing.joined_at = served_by
        standing.generation = message.generation_id
        standing.synced = standing.deserted_join = False
        standing.joined_ms = self.kernel.now_ms
        _, subscription = decode_subscription(ask.message.protocols[0].metadata)
        names = {name: topic.topic_id for name, topic in self.broker.image.topics.items()}
        standing.claims = frozenset(
            (names.get(owned.topic), index)
            for owned in subscription.owned_partitions
            for index in owned.partitions
        )

    def _sync_answered(self, process: "ProxyProcess", standing: Standing) -> None:
        member = process.translator._context.registry.find(self.group_id, standing.member_id)
        assert member is not None, "SyncGroup was answered for a member that is not known"
        names = process.translator._context.topic_names
        self._ids[standing.client] = {
            pid: (names[pid[0]], pid[1]) for pid in member.partitions.synced_assignment
        }
        standing.handed = member.partitions.synced_assignment
        standing.given = {member.partitions.broker_assignment}
        standing.synced = True
        standing.asked_to_rejoin_ms = None

    def _check_promptness(self, standing: Standing, ask: Ask) -> None:
        if (late := self._promptness.why_late(standing, ask, self.kernel.now_ms)) is not None:
            raise Violation(5, late)

    group_id = "payments"

    def spoken_for(self, ask: Ask) -> None:
        """Somebody else with READ on the group sends a call in a member's name.

        For one of several processes the client has moved to another connection, and is away when that one ends.
        """
        standing = self.client_of.get(getattr(ask.message, "member_id", ""))
        if standing is not None:
            standing.moved = True

    def told_in_its_place(self, ask: Ask, message: Any) -> None:
        """Somebody else with READ on the group was told in a member's name that it is to join again.

        For the proxy, as for a broker, the member's time to do so runs from then on.
        """
        standing = self.client_of.get(getattr(ask.message, "member_id", ""))
        told = ErrorCode.REBALANCE_IN_PROGRESS in codes_in(message)
        if told and standing is not None and standing.asked_to_rejoin_ms is None:
            standing.asked_to_rejoin_ms = self.kernel.now_ms

    def _start_rebalance_timeout(self, process: "ProxyProcess", standing: Standing) -> None:
        self.count("rejoins")
        if standing.asked_to_rejoin_ms is None:
            standing.asked_to_rejoin_ms = self.kernel.now_ms
        adopted = standing.joined_at != (process.name, process.incarnation)
        changed = any(given != standing.handed for given in standing.given)
        withheld = not standing.claims <= standing.handed
        # What a JoinGroup did whose answer nobody heard can only be undone by another one.
        known = standing.synced and not standing.deserted_join
        if not (adopted or changed or withheld) and known and standing.excuse() is None:
            raise Violation(6, f"{standing.client} is made to rejoin although nothing of it changed")

    def _told_it_is_over(
        self, process: "ProxyProcess", standing: Standing, ask: Ask, code: ErrorCode
    ) -> None:
        if ask.message.member_id != standing.member_id or _generation(ask.message) != standing.generation:
            return  # of an older membership or generation
        excuse = standing.excuse()
        if code == ErrorCode.UNKNOWN_MEMBER_ID and self._is_moved(process, standing):
            # It goes on being a member until it has given up everything and joins anew.
            self.count("clients moved between the protocols")
            return
        if excuse is None:
            raise Violation(6, f"{standing.client} is told {code.name} while it is within its contract")
        standing.end(f"it was told {code.name}")

    @staticmethod
    def _is_moved(process: "ProxyProcess", standing: Standing) -> bool:
        """Whether the policy is a reason to tell a client to join anew."""
        return standing.classic is process.translates or process.policy_read_ms >= standing.answered_ms

    def _commit_answered(self, standing: Standing, ask: Ask, codes: set[int]) -> None:
        must = self._commits.pop((standing.client, ask.number), None)
        if must and ask.message.generation_id_or_member_epoch != standing.generation and standing.synced:
            must = None  # SyncGroup came first: its generation is the older one by now
        self.count("commits")
        if must is False and ErrorCode.NONE in codes:
            raise Violation(3, f"a commit of {standing.client} with an old generation is accepted")
        if must is False:
            self.count("commits refused")
        refusals = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
        if must is True and codes & refusals and standing.excuse() is None:
            raise Violation(3, f"a commit of {standing.client} with its generation is refused")

    def forwarded(self, process: "ProxyProcess", client: "Caller", ask: Ask) -> None:
        self.tell(process, f"relays for {client}:", ask.message)
        if ask.api_key == ApiKey.JOIN_GROUP:
            self.standings[client].joins_at_the_broker = True

    def relayed(self, process: "ProxyProcess", client: "Caller", ask: Ask, message: Any) -> None:
        """The broker itself answered: the client is a classic member, or not a member at all."""
        if ask.api_key == ApiKey.FETCH:
            return
        standing = self.standings[client]
        self._check_promptness(standing, ask)
        if ask.api_key == ApiKey.JOIN_GROUP:
            self._joined_classic(standing, ask, message)
        elif ask.api_key == ApiKey.SYNC_GROUP and message.error_code == ErrorCode.NONE:
            self._ids[client] = {
                (topic.topic_id, index): (topic.name, index)
                for topic in self.broker.image.topics.values()
                for index in range(topic.partitions)
            }
        if codes_in(message) & _OVER and ask.api_key != ApiKey.LEAVE_GROUP:
            standing.end("the broker told it that its membership is over")

    def _joined_classic(self, standing: Standing, ask: Ask, message: Any) -> None:
        standing.joins_waiting.discard(ask.number)
        standing.joins_at_the_broker = False
        standing.heard_ms = self.kernel.now_ms
        if message.error_code == ErrorCode.NONE:
            self._has_replaced(standing)
            self.client_of[message.member_id] = standing
            standing.member_id = message.member_id
            standing.joined_at = None
            standing.classic = True
            standing.answered_ms = self.kernel.now_ms
            standing.generation, standing.synced = message.generation_id, False
        elif message.error_code in _OVER:
            standing.end("the broker told it that its membership is over")

    def called(self, process: "ProxyProcess", call: Call, *, lost: bool) -> None:
        """The translation sends a request upstream."""
        self.tell(process, "calls" + (" into the void" if lost else ""), call.message)
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and not lost:
            if call.message.member_epoch == 0:
                client = process.connections[call.connection_id].client.near
                self.standings[client].joins_as = call.message.member_id
        elif call.api_key == ApiKey.JOIN_GROUP and not lost:
            client = process.connections[call.connection_id].client.near
            self.standings[client].joins_at_the_broker = True
        if not lost:
            self.hostile.check_words(process, call)
            self.check_call(process, call)

    def check_call(self, process: "ProxyProcess", call: Call) -> None:
        """Whatever made the proxy send this: it takes nothing away from anybody."""
        self.natives.check_call(process, call)
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            self._check_release(str(process), call.message)
        elif call.api_key == ApiKey.LEAVE_GROUP:
            for identity in call.message.members:
                self._check_released(str(process), identity.member_id, frozenset())

    def called_back(self, process: "ProxyProcess", call: Call, message: Any) -> None:
        self.tell(process, "<-", message)
        self._broker_said = message
        self.learn_assignment(call, message)

    def learn_assignment(self, call: Call, message: Any) -> None:
        """The broker may have assigned something to a member in answer to a request of the proxy's own."""
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and message.assignment is not None:
            standing = self.client_of.get(call.message.member_id)
            if standing is not None:
                standing.given.add(
                    frozenset(
                        (t.topic_id, i) for t in message.assignment.topic_partitions for i in t.partitions
                    )
                )

    def emitted(self, process: "ProxyProcess", event: Event) -> None:
        self.tell(process, "", event)
        self.natives.check_event(process, event)
        standing = self.client_of.get(event.member_id)
        if event.kind is not EventKind.ADOPTED or standing is None:
            return
        alone = process.translator._context.settings.sole_process
        cut_off = not alone and standing.broken_ms >= standing.answered_ms
        if standing.moved or cut_off or standing.excuse() is not None:
            standing.joined_at = None

    # -- the broker ------------------------------------------------------------------------------------------------

    def released(self, broker: "Broker", member_id: str, partitions: frozenset[Pid]) -> None:
        """The coordinator has served a heartbeat, and takes these partitions for free now."""
        self._check_free(str(broker), member_id, partitions)

    def _check_release(self, who: str, heartbeat: Any) -> None:
        if heartbeat.member_epoch == STATIC_LEAVE_EPOCH:
            self._is_taken_over(heartbeat.member_id)
        if heartbeat.member_epoch < 0:
            kept: frozenset[Pid] = frozenset()
        elif heartbeat.topic_partitions is None:
            return
        else:
            kept = frozenset((t.topic_id, i) for t in heartbeat.topic_partitions for i in t.partitions)
        self._check_released(who, heartbeat.member_id, kept)

    def _is_taken_over(self, member_id: str) -> None:
        """A static member is said to be away: the contract of its client ends if another process waits to replace it.

        Also if that process asked before this client last joined: a call counts at any moment until it is answered. And
        also if this client has not heard of its membership yet.
        """
        joining = (one for one in self.standings.values() if one.joins_as == member_id)
        standing = self.client_of.get(member_id) or next(joining, None)
        for other in self.standings.values():
            if (
                standing is not None
                and other is not standing
                and other.instance_id is not None
                and other.instance_id == standing.instance_id
                and other.taking_over & other.joins_waiting
            ):
                standing.end("another process has its instance id")
                standing.replaced = True

    def _check_released(self, who: str, member_id: str, kept: frozenset[Pid]) -> None:
        self._check_free(who, member_id, self.broker.owned(member_id) - kept)

    def _check_free(self, who: str, member_id: str, partitions: frozenset[Pid]) -> None:
        standing = self.client_of.get(member_id)
        if standing is None or standing.session_timeout_ms is None or not standing.client.held:
            return
        working_on = standing.client.held - standing.disowned
        released = frozenset(pid for pid in working_on & partitions if self.broker.image.by_id(pid[0]))
        if released and standing.excuse() is None:
            text = f"{who} releases {self.story.partitions(released)} while {standing.client} works on it"
            raise Violation(2, text)

    def said(self, broker: "Broker", link: Link, ask: Ask, response: Any) -> None:
        """The coordinator answered."""
        if ask.api_key == ApiKey.OFFSET_COMMIT and ErrorCode.NONE in codes_in(response):
            self._check_commit(ask.message)

    def _check_commit(self, message: Any) -> None:
        standing = self.client_of.get(message.member_id)
        if standing is None or standing.session_timeout_ms is None:
            return
        names = {name: topic.topic_id for name, topic in self.broker.image.topics.items()}
        working_on = standing.client.named()
        current = (
            {standing.generation} if standing.synced else {standing.generation, standing.previous_generation}
        )
        for topic in message.topics:
            for partition in topic.partitions:
                pid = names.get(topic.name), partition.partition_index
                holders = self._holders.get(pid, ())
                if (topic.name, partition.partition_index) in working_on:
                    continue  # of this topic, or of one that had its name
                commit = topic.name, partition.partition_index, partition.committed_offset
                if standing.committed_with.get(commit) in current:
                    continue  # a generation is all that brokers look at
                for other in holders:
                    if self._has_right(other, pid):
                        text = (
                            f"{standing.client} commits {self.story.partitions([pid])}, which {other} holds"
                        )
                        raise Violation(3, text)

    def expired(self, broker: "Broker", member_id: str) -> None:
        """The coordinator removed a member because one of its own timeouts passed."""
        self.tell(broker, f"removes {short(member_id)}: its timeout has passed")
        standing = self.client_of.get(member_id)
        if standing is None or standing.member_id != member_id or standing.excuse() is not None:
            return
        if self._was_cut_off(standing):
            standing.end("the broker's own timeout passed while it was cut off")
        elif standing.session_timeout_ms is None or standing.classic:
            standing.end("the broker's own timeout passed")
        elif standing.client.is_kept_out(of_consumer_group=True):  # which it was until then
            standing.end("the broker's own timeout passed, of a membership that it has left behind")
        else:
            raise Violation(1, f"the broker removes {standing.client}, which is within its contract")

    def passed_over(self, broker: "Broker", member_id: str) -> None:
        """A classic group's rebalance ended without one of its static members, which stays a member all the same.

        The leader gives its partitions to whom it likes, as it does with those of members that are removed.
        """
        self.tell(broker, f"goes on without {short(member_id)}: its timeout has passed")
        standing = self.client_of.get(member_id)
        if standing is not None and standing.member_id == member_id:
            standing.end("the broker's own timeout passed")

    def _was_cut_off(self, standing: Standing) -> bool:
        """Whether its way to the broker was broken within the longest of the broker's timeouts."""
        upstream_rebalance_ms = standing.rebalance_timeout_ms + (standing.session_timeout_ms or 0) + 10_000
        patience_ms = max(self.broker.config.consumer_session_timeout_ms, upstream_rebalance_ms)
        return self.kernel.now_ms - standing.broken_ms <= patience_ms


def _generation(message: Any) -> int:
    """The generation in a call; -1 if it has none."""
    generation = getattr(message, "generation_id", None)
    if generation is None:
        generation = getattr(message, "generation_id_or_member_epoch", -1)
    return int(generation)


def codes_in(message: Any) -> set[int]:
    """The error codes of a response."""
    if hasattr(message, "error_code"):
        return {message.error_code}
    return {partition.error_code for topic in message.topics for partition in topic.partitions}
