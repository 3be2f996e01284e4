"""Invariant 10: harm that a move may have done aborts it, once, and takes it back; nothing else does.

Judged by what is planted (:mod:`tests.simulation.gates`), by the events, and by who is translated in the end.

* Without planted harm no move is aborted; nor is one while other groups have the same harm, while a broker is away, or
  while a process is silent. Two exceptions, in which it can't be seen that the move has not done it: partitions have no
  owner, or clients rejoin, for three windows, while clients crash or go to other replicas, connections break or a
  coordinator fails over; and no client subscribes any more to a topic that one subscribed to when the group was
  measured.
* With harm, somebody translated and nothing else wrong, the move is aborted within :data:`WITHIN_MS`. Harm that began
  while the baseline was measured is in it: the group is like that without the move.
* While a process is silent nobody is told to move, and no step begins; nor after it was aborted.
* In the end of an aborted move nobody is translated.
"""

from typing import TYPE_CHECKING

from tests.simulation.gate_kinds import CONTROL, FAULT, HARM, SILENT
from tests.simulation.violation import Violation
from translation.actions import Event, EventKind

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch
    from tests.simulation.world import World

WITHIN_MS = 60_000
SILENT_MS = 40_000
"""By then a report is too old, and everybody has judged."""
UNOWNED = "seconds without an owner: "
_OF_FAULTS = (UNOWNED, "rejoins: ", "disconnects: ")
"""What faults cause besides: clients that crash or go to other replicas, connections that break, a log that is away."""
_TOLD = "told to join the new protocol"


class GateWatch:
    """What is planted, and what follows."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self.world: World | None = None
        self.aborted_ms = 0
        self.harm_since_ms = 0
        """Since when there is harm, and somebody is translated."""
        self.is_faultless = False
        self._is_measured = False
        """Whether the baseline is being measured."""
        self._baseline_ms = 0
        """When it was taken."""
        self._measured_topics = frozenset[str]()
        """What clients subscribed to then."""
        self._given_up_ms = -WITHIN_MS
        """When nobody subscribed to one of these, for the last time."""

    def emitted(self, process: "ProxyProcess", event: Event) -> None:
        """The translation reports an event."""
        if event.kind is EventKind.STEP_CHANGED:
            self._step_changed(event.reason)
        elif event.kind is EventKind.POLICY_CHANGED and event.reason.startswith(_TOLD):
            self.member_switches(process)

    def _step_changed(self, text: str) -> None:
        for said in ("paused", "missing", "suspect", "baseline", "aborted"):
            if f", {said}: " in text:
                self._watch.count(f"gates: {said}")
        if self._is_measured and ", baseline: " not in text:
            self._baseline_ms = self._watch.kernel.now_ms
            self._measured_topics = self._topics()
        self._is_measured = ", baseline: " in text
        if text.startswith("resume by "):
            self.aborted_ms = 0  # somebody has it go on as it is
        if ", aborted: " not in text:
            return
        if self._planted_kind() != HARM and self._may_be_a_fault(text):
            self._watch.count("gates: aborted after other faults")
        elif self._planted_kind() != HARM and self._may_be_a_topic(text):
            self._watch.count("gates: aborted after a topic was given up")
        elif self._planted_kind() != HARM:
            raise Violation(10, f"a move is aborted without harm: {text}")
        if self.aborted_ms:
            raise Violation(10, "a move is aborted twice")
        self.aborted_ms = self._watch.kernel.now_ms

    def _may_be_a_fault(self, text: str) -> bool:
        """Whether partitions have had no owner, or clients have rejoined, since something else went wrong."""
        newest_ms = self._watch.kernel.now_ms - self._watch.last_fault_ms
        return not self.is_faultless and any(one in text for one in _OF_FAULTS) and newest_ms <= WITHIN_MS

    def _may_be_a_topic(self, text: str) -> bool:
        """Whether partitions have had no owner because nobody wanted them."""
        return UNOWNED in text and self._watch.kernel.now_ms - self._given_up_ms <= WITHIN_MS

    def _topics(self) -> frozenset[str]:
        """What the clients that run subscribe to."""
        running = (client for client in self._watch.standings if client.alive)
        return frozenset[str]().union(*(getattr(client, "topics", ()) for client in running))

    def _planted_kind(self) -> str:
        assert self.world is not None
        return self.world.plan.gates_kind

    def member_switches(self, process: "ProxyProcess") -> None:
        """A process converts a classic member in place, or makes it join anew."""
        if self.world is None:
            return  # the move has no gates
        now_ms, plan = self._watch.kernel.now_ms, self.world.plan
        if not process.translates:
            raise Violation(10, "a member is switched although the move was aborted")
        if (
            self.world.planted() == SILENT
            and self.is_faultless
            and now_ms >= plan.gates_from_ms + SILENT_MS
            and plan.fleet
        ):
            raise Violation(10, "a member is switched while a replica does not report")
        if self.world.planted() in {CONTROL, FAULT} and now_ms >= plan.gates_from_ms + SILENT_MS:
            raise Violation(10, f"a member is switched in spite of the {self.world.planted()}")

    @property
    def stops_for_good(self) -> bool:
        """Whether there was harm before anybody was moved: it does not end, and so nobody is."""
        return self.world is not None and self._planted_kind() == HARM

    def look(self) -> None:
        """Look whether harm that lasts is acted on."""
        if self.world is None or not self.world.plan.has_gates:
            return
        now_ms = self._watch.kernel.now_ms
        if not self._measured_topics <= self._topics():
            self._given_up_ms = now_ms
        is_judged = any(one.up and one.translator.rollout.gated_groups() for one in self.world.processes)
        if (
            self.world.planted() != HARM
            or not self._watch.steps.translated()
            or self.aborted_ms
            or self.world.plan.gates_from_ms <= self._baseline_ms
            or not is_judged  # the last step was held for as long as it has to be
        ):
            self.harm_since_ms = 0
            return
        self.harm_since_ms = self.harm_since_ms or now_ms
        if self.is_faultless and now_ms - self.harm_since_ms > WITHIN_MS:
            raise Violation(10, f"harm is not acted on for {WITHIN_MS / 1000:g} s")
