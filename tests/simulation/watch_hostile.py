"""Invariant 7: a connection without READ on the group makes no difference to anybody (docs/explanation/security.md).

It is checked at each event of such a connection that the translation handles: afterwards the process's state of groups
and members is the same, no deadline has moved, no turn is taken, and no event is emitted.
:mod:`tests.simulation.simulation` also compares the whole history with that of the same plan without attackers.

One thing all groups share: a process that missed any deadline knows that it stood still, and handles all deadlines a
second later (:mod:`tests.simulation.proxy_process`). Attackers may act in a group of their own, which has deadlines
too. Where those alone were missed, the process waits in the history without attackers as well.

A request that goes upstream on an honest client's connection must contain nothing that an attacker sent.
"""

from copy import copy
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey
from tests.simulation.authorizer import OPEN_GROUP
from tests.simulation.clients.hostile import REBALANCE_TIMEOUT_MS, UNKNOWN_TOPIC, Hostile
from tests.simulation.fingerprint import words_of
from tests.simulation.violation import Violation
from tests.simulation.watch import Watch
from tests.simulation.wire import Ask
from translation.actions import Action, Call, Emit
from translation.conversion.helper import Helpers
from translation.engine.connections import ClientConnections
from translation.engine.context import Context
from translation.engine.registry import Registry
from translation.engine.scheduler import Scheduler
from translation.members.environment import Timed
from translation.members.member import Group, Member
from translation.members.procedure import RunningProcedure
from translation.translator import Translator

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess

_NOT_OF_MEMBERS = (Context, Helpers, Registry, Scheduler, ClientConnections, Translator, Group, GeneratorType)
"""They know all connections, the hostile ones among them; and a group is looked at for itself (:func:`_known_of`).

Generators are left out to save time: what a procedure waits for shows whether it has gone on.
"""


class HostileWatch:
    """Observes the proxy's handling of attackers' calls; the methods are those of :class:`Watch`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.names: set[str] = set()
        """The client ids of those that have no READ on the group."""

    # -- what a proxy does for them --------------------------------------------------------------------------------

    def call_arrived(self, process: "ProxyProcess", client: Hostile, ask: Ask) -> None:
        self._watch.count(f"hostile calls of {client.principal.name}")
        if client.principal.reads_group:
            self._watch.memberships.spoken_for(ask)

    def abandoned(self, client: Hostile, ask: Ask) -> None:
        """Ignore it: an attacker never waits for an answer."""

    def answered(
        self, process: "ProxyProcess", client: Hostile, ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        self._watch.aside(process, f"answers {client}:", message)
        if client.plan.stalls:
            self._watch.memberships.told_in_its_place(ask, message)

    def forwarded(self, process: "ProxyProcess", client: Hostile, ask: Ask) -> None:
        self._watch.aside(process, f"relays for {client}:", ask.message)

    def relayed(self, process: "ProxyProcess", client: Hostile, ask: Ask, message: Any) -> None:
        self._watch.aside(process, f"relays to {client}:", message)

    def called(self, process: "ProxyProcess", call: Call, *, lost: bool) -> None:
        self._watch.aside(process, f"calls for {call.client_id}:", call.message)
        if not lost:
            self._watch.check_call(process, call)

    def called_back(self, process: "ProxyProcess", call: Call, message: Any) -> None:
        self._watch.aside(process, f"<- for {call.client_id}", message)
        self._watch.memberships.learn_assignment(call, message)

    # -- what must be so -------------------------------------------------------------------------------------------

    def before(self, process: "ProxyProcess") -> list[Any]:
        """Take the state of a process before an event of a connection without rights."""
        return state_of_members(process.translator, process.now_s)

    def after(
        self, process: "ProxyProcess", client: Hostile, before: list[Any], what: str, actions: list[Action]
    ) -> None:
        """Check the state after that event, and the actions that the translation returned."""
        for action in actions:
            if isinstance(action, Emit) and action.event.group_id != OPEN_GROUP:
                raise Violation(7, f"{process} reports {action.event.kind} for {client}, which has no rights")
        if state_of_members(process.translator, process.now_s) != before:
            raise Violation(7, f"{process} changes what it knows of a group for {client} ({what})")

    def check_words(self, process: "ProxyProcess", call: Call) -> None:
        """Check that a request on an honest client's connection has nothing that an attacker sent."""
        message = call.message
        topics = getattr(message, "subscribed_topic_names", None) or ()
        if (
            call.client_id in self.names
            or UNKNOWN_TOPIC in topics
            or getattr(message, "rebalance_timeout_ms", None) == REBALANCE_TIMEOUT_MS
        ):
            name = ApiKey(call.api_key).name
            raise Violation(7, f"{process} sends {name} with a hostile client's words for another one")


def state_of_members(translator: Translator, now: float) -> list[Any]:
    """Return the state of all groups and members of a process at a time (seconds of its own clock), for comparison."""
    context = translator._context
    booked = sorted(
        (when, type(timed).__name__, timed.group_id if isinstance(timed, Group) else timed.member_id)
        for when, _, timed in context.timers._heap
        if isinstance(timed, (Group, Member)) and timed.timer_at == when and _group_of(timed) != OPEN_GROUP
    )
    ids = context.ids
    return words_of(
        {one: _known_of(group, now) for one, group in context.registry.groups.items() if one != OPEN_GROUP},
        booked,
        ids._issued,
        ids._joins_classic,
        context.topic_names,
        opaque=_NOT_OF_MEMBERS,
    )


def is_late_for_strangers_alone(translator: Translator, before: float) -> bool:
    """Whether all deadlines that were due before a time (seconds of the process's clock) are of :data:`OPEN_GROUP`."""
    heap = translator._context.timers._heap
    missed = [timed for when, _, timed in heap if when < before and timed.timer_at == when]
    return bool(missed) and all(set(_groups_of(timed)) == {OPEN_GROUP} for timed in missed)


def _groups_of(timed: Timed) -> tuple[str, ...]:
    """The groups of what has a deadline: of a procedure those that it has asked the broker about last."""
    if isinstance(timed, Group | Member):
        return (_group_of(timed),)
    asked = timed.sent.message if isinstance(timed, RunningProcedure) and timed.sent is not None else None
    one = getattr(asked, "group_id", None)
    return (one,) if one else getattr(asked, "group_ids", ()) or getattr(asked, "groups", ())


def _group_of(timed: Group | Member) -> str:
    return timed.group_id if isinstance(timed, Group) else timed.group.group_id


def _known_of(group: Group, now: float) -> dict[str, Any]:
    """Return the current state of a group. Expired entries are left out: whoever reads them next drops them."""
    known = {name: getattr(group, name) for name in Group.__slots__ if name != "_owner"}
    known["relayed_until"] = {one: until for one, until in group.relayed_until.items() if until > now}
    known["migration"] = copy(group.migration)
    known["migration"].expire(now)
    return known
