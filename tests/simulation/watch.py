"""The observer: sees every call, answer and change of ownership, keeps the story, and checks the invariants.

1. :mod:`tests.simulation.watch_ownership`: no two clients within their contract hold a partition of the same topic id.
   The broker's own timeouts end no membership of a client that is within its contract and was not cut off.
2. :mod:`tests.simulation.watch_releases`: nothing that is sent upstream (an owned list, epoch -1 or -2) would release a
   partition that a client within its contract works on. Nor does the broker release one when it arrives, however late.
3. :mod:`tests.simulation.watch_commits`, :mod:`tests.simulation.watch_producers`: a commit with the current generation
   is accepted; one with an old generation is not. No commit with an old generation is accepted for a partition that
   another client, and not the committer, holds by contract. One with the current generation is: a generation is all
   that brokers look at.
4. :mod:`tests.simulation.settling`: when faults have ended, what clients hold becomes what the broker wants.
5. ``got``, ``timed_out`` and :mod:`tests.simulation.proxy_process`: one answer for each request, in order; and for a
   Heartbeat within a time that keeps its session alive (:mod:`tests.simulation.promptness`).
6. :mod:`tests.simulation.watch_answers`: REBALANCE_IN_PROGRESS only if the broker gave this member another assignment
   since its SyncGroup, or it claimed what was withheld, or another process adopted it; no other ending of a membership
   without a cause (one is that the policy changed, after which the client is within its contract until it has given up
   everything); and only codes that this API's old clients know.
7. :mod:`tests.simulation.watch_hostile`: a connection without READ on the group makes no difference to anybody.
8. :mod:`tests.simulation.watch_natives`: a member of the new protocol is left alone.
9. :mod:`tests.simulation.watch_steps`: of a group that is moved by steps no more members are translated than its step
   allows, and in the end as many as it allows.
10. :mod:`tests.simulation.watch_gates`: harm aborts a move that has gates, once, and takes it back; nothing else does.

While the policy lets the group pass through, its members are classic ones, and what the broker itself does to them is
not judged. What the proxy does to them is: it ends no classic membership of a client that works on something (2).

:mod:`tests.simulation.standing` defines "within its contract", and :mod:`tests.simulation.watch_memberships` keeps
track of it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.fleet.watch_log import LogWatch
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link
from tests.simulation.promptness import Promptness
from tests.simulation.standing import MEMBERSHIP_IS_OVER, Pid, Standing
from tests.simulation.story import Story
from tests.simulation.violation import Violation
from tests.simulation.watch_answers import AnswerWatch
from tests.simulation.watch_commits import CommitWatch
from tests.simulation.watch_gates import GateWatch
from tests.simulation.watch_memberships import MembershipWatch
from tests.simulation.watch_outages import OutageWatch
from tests.simulation.watch_ownership import OwnershipWatch
from tests.simulation.watch_producers import ProducerWatch
from tests.simulation.watch_releases import ReleaseWatch
from tests.simulation.watch_steps import StepWatch
from tests.simulation.wire import Ask, Reply, codes_in
from translation.actions import Call, Event

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.clients.caller import Caller
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch_hostile import HostileWatch
    from tests.simulation.watch_natives import NativeWatch


class Watch:
    """Receives every event of a run, tells the story, and passes the event to whoever judges it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.story = Story()
        self.broker: Broker
        self.hostile: HostileWatch
        self.natives: NativeWatch
        self.ownership = OwnershipWatch(self)
        self.releases = ReleaseWatch(self)
        self.commits = CommitWatch(self)
        self.memberships = MembershipWatch(self)
        self.answers = AnswerWatch(self)
        self.log = LogWatch(self)
        self.producers = ProducerWatch(self)
        self.steps = StepWatch(self)
        self.gates = GateWatch(self)
        self.outages = OutageWatch(self)
        self.observers: dict[Any, Any] = {}
        """The observers of clients that this one does not observe: attackers and native members."""
        self.standings: dict[Any, Standing] = {}
        self.client_of: dict[str, Standing] = {}
        """The client that uses each member id."""
        self.last_fault_ms = -(10**9)
        self.moved_on_ms = -(10**9)
        """When the coordinator failed over last, or removed a helper that had not called for its session."""
        self.counts: dict[str, int] = {}
        self._promptness = Promptness()
        self._joins_answered: dict[str, Any] = {}
        """The broker's last answer to the proxy's own JoinGroup of a member; its client may get it much later."""

    def is_left_behind(self, standing: Standing) -> bool:
        """Whether the group has become a classic one with a newer generation than the client has, by a failover or the
        end of a helper: members that are to rejoin are at the generation before, and the broker refuses it."""
        group = self.broker.classic_group
        return (
            group is not None
            and standing.member_id in group.members
            and group.generation > standing.generation
            and self.moved_on_ms >= standing.answered_ms
        )

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
        """Record that something goes wrong from outside."""
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
        self.memberships.renewed(client)

    def session_over(self, client: "Caller") -> None:
        """A client's own clock has ended its session: it gives up everything, and its member id."""
        self.standings[client].end("its own session timer ended")
        self.count("clients whose own session timer ended")
        self.tell(client, "gives up its membership: no coordinator has answered for its session timeout")

    def holds(self, client: "Caller", before: frozenset[Pid], held: frozenset[Pid]) -> None:
        """A client's application changes from working on ``before`` to working on ``held``."""
        self.ownership.holds(client, before, held)

    def asked(self, client: "Caller", link: Link, ask: Ask) -> None:
        """A client sends a request."""
        if ask.api_key != ApiKey.FETCH:
            self.tell(client, f"-> {link}", ask.message)
        if ask.api_key == ApiKey.JOIN_GROUP:
            self.memberships.join_asked(client, ask)
        elif ask.api_key == ApiKey.OFFSET_COMMIT:
            self.commits.asked(client, ask)

    def got(self, client: "Caller", ask: Ask | None, reply: Reply) -> None:
        """A client receives a response; ``ask`` is its oldest request without one."""
        if ask is None or ask.number != reply.number:
            raise Violation(5, f"{client} got an answer out of order")
        if ask.api_key != ApiKey.FETCH:
            self.tell(client, "<-", reply.message)

    def timed_out(self, client: "Caller", link: Link, ask: Ask, asked_ms: int) -> None:
        """A client stops waiting for a response."""
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
        """Return the partitions that a SyncGroup answer meant by these names."""
        return self.memberships.ids_for(client, named)

    def topics(self) -> dict[str, Any]:
        """Return the topics that Metadata would show."""
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
        if process.member_log is not None:
            self.log.arrived(client, ask)
        self._promptness.asked(standing, ask, self.kernel.now_ms)
        self.memberships.call_arrived(client, ask)
        if ask.api_key == ApiKey.OFFSET_COMMIT:
            self.commits.arrived(process, client, ask)

    def abandoned(self, client: "Caller", ask: Ask) -> None:
        """A proxy hears that a client does not wait for an answer any more."""
        standing = self.standings[client]
        self._check_promptness(standing, ask)
        self.memberships.abandoned(standing, ask)

    def answered(
        self, process: "ProxyProcess", client: "Caller", ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        """A proxy answers a call itself; ``arrives`` says whether the connection is whole."""
        standing = self.standings[client]
        self._check_promptness(standing, ask)
        if ask.api_key == ApiKey.JOIN_GROUP and message is self._joins_answered.get(message.member_id):
            self.memberships.classic_join_answered(standing, ask, message, arrives=arrives)
        else:
            self.answers.answered(process, standing, ask, message, arrives=arrives)

    def _check_promptness(self, standing: Standing, ask: Ask) -> None:
        if (late := self._promptness.why_late(standing, ask, self.kernel.now_ms)) is not None:
            raise Violation(5, late)

    def forwarded(self, process: "ProxyProcess", client: "Caller", ask: Ask) -> None:
        """A proxy relays a call to the broker."""
        self.tell(process, f"relays for {client}:", ask.message)
        if ask.api_key == ApiKey.JOIN_GROUP:
            self.memberships.goes_to_the_broker(self.standings[client], ask.message)

    def relayed(self, process: "ProxyProcess", client: "Caller", ask: Ask, message: Any) -> None:
        """The broker itself answered: the client is a classic member, or not a member at all."""
        if ask.api_key == ApiKey.FETCH:
            return
        standing = self.standings[client]
        self._check_promptness(standing, ask)
        if ask.api_key == ApiKey.JOIN_GROUP:
            self.memberships.classic_join_answered(standing, ask, message, arrives=True)
        elif ask.api_key == ApiKey.SYNC_GROUP and message.error_code == ErrorCode.NONE:
            self.memberships.classic_sync_answered(client)
        if codes_in(message) & MEMBERSHIP_IS_OVER and ask.api_key != ApiKey.LEAVE_GROUP:
            standing.end("the broker told it that its membership is over")

    def called(self, process: "ProxyProcess", call: Call, *, lost: bool) -> None:
        """The translation sends a request upstream; if ``lost``, no connection carries it."""
        self.tell(process, "calls" + (" into the void" if lost else ""), call.message)
        if not lost:
            self.memberships.called(process, call)
            self.hostile.check_words(process, call)
            self.check_call(process, call)

    def check_call(self, process: "ProxyProcess", call: Call) -> None:
        """Check a request of the proxy's own, whoever made it send that."""
        self.natives.check_call(process, call)
        self.releases.check_call(process, call)

    def called_back(self, process: "ProxyProcess", call: Call, message: Any) -> None:
        """The broker answers a request of the proxy's own."""
        self.tell(process, "<-", message)
        if call.api_key == ApiKey.JOIN_GROUP:
            self._joins_answered[message.member_id] = message
        self.memberships.learn_assignment(call, message)

    def emitted(self, process: "ProxyProcess", event: Event) -> None:
        """The translation reports an event."""
        self.tell(process, "", event)
        self.natives.check_event(process, event)
        self.memberships.emitted(process, event)
        self.gates.emitted(process, event)

    # -- the broker ------------------------------------------------------------------------------------------------

    def released(
        self, broker: "Broker", member_id: str, partitions: frozenset[Pid], *, is_late: bool
    ) -> None:
        """The coordinator has served a heartbeat, and takes these partitions as free now.

        ``is_late``: it had an owned list, and its sender had given up the connection before it arrived.
        """
        self.releases.released(broker, member_id, partitions, is_late=is_late)

    def said(self, broker: "Broker", link: Link, ask: Ask, response: Any) -> None:
        """The coordinator answered."""
        self.steps.look()
        is_commit = ask.api_key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
        if is_commit and ErrorCode.NONE in codes_in(response):
            self.commits.accepted(ask.message, link)
        elif ask.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            self.memberships.heartbeat_served(ask.message, response)
            self.steps.heartbeat_served(ask.message, response)

    def expired(self, broker: "Broker", member_id: str) -> None:
        """The coordinator removed a member because one of its own timeouts passed."""
        self.ownership.expired(broker, member_id)

    def passed_over(self, broker: "Broker", member_id: str) -> None:
        """A classic group's rebalance ended without one of its static members, which nevertheless stays a member."""
        self.ownership.passed_over(broker, member_id)
