"""Invariant 1: no partition has two owners that are within their contracts, and brokers remove no such client.

A client holds what its application works on. It has a right to that while it is within its contract
(:mod:`tests.simulation.standing`), except to partitions that its last JoinGroup did not claim.
"""

from typing import TYPE_CHECKING, Any

from tests.simulation.standing import Pid, Standing
from tests.simulation.story import short
from tests.simulation.violation import Violation
from translation.members.conversion import is_helper

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.clients.caller import Caller
    from tests.simulation.watch import Watch


class OwnershipWatch:
    """Knows which client holds which partition, and which memberships the broker's own timeouts end."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._holders: dict[Pid, list[Any]] = {}

    def holders(self, pid: Pid) -> list[Any]:
        """Return the clients that hold a partition."""
        return self._holders.get(pid, [])

    def holds(self, client: "Caller", before: frozenset[Pid], held: frozenset[Pid]) -> None:
        """Record what a client works on from now on, and check that nobody else has a right to it."""
        watch = self._watch
        watch.tell(client, "works on", held)
        for pid in before - held:
            self._holders[pid].remove(client)
        for pid in sorted(held - before):
            others = self._holders.setdefault(pid, [])
            for other in others:
                if self.has_right(client, pid) and self.has_right(other, pid):
                    raise Violation(1, f"{watch.story.partitions([pid])} is held by {other} and by {client}")
            others.append(client)

    def has_right(self, client: "Caller", pid: Pid) -> bool:
        """Whether a client may work on a partition that it holds."""
        standing = self._watch.standings[client]
        return pid not in standing.disowned and standing.excuse() is None

    def expired(self, broker: "Broker", member_id: str) -> None:
        """The coordinator removed a member because one of its own timeouts passed."""
        watch = self._watch
        watch.tell(broker, f"removes {short(member_id)}: its timeout has passed")
        if is_helper(member_id):
            watch.moved_on_ms = watch.kernel.now_ms
        standing = watch.client_of.get(member_id)
        if standing is None or standing.member_id != member_id or standing.excuse() is not None:
            return
        if self.was_cut_off(standing):
            standing.end("the broker's own timeout passed while it was cut off")
        elif standing.session_timeout_ms is None or standing.classic:
            standing.end("the broker's own timeout passed")
        elif standing.client.is_kept_out(of_consumer_group=True) or _begins_anew(standing):
            # It was kept out until then; or a log that is away could not say that its old id is dead.
            standing.end("the broker's own timeout passed, of a membership that it has left behind")
        else:
            raise Violation(1, f"the broker removes {standing.client}, which is within its contract")

    def passed_over(self, broker: "Broker", member_id: str) -> None:
        """A classic group's rebalance ended without one of its static members, which nevertheless stays a member.

        The leader assigns its partitions to any member, as it does with those of members that are removed.
        """
        self._watch.tell(broker, f"goes on without {short(member_id)}: its timeout has passed")
        standing = self._watch.client_of.get(member_id)
        if standing is not None and standing.member_id == member_id:
            standing.end("the broker's own timeout passed")

    def was_cut_off(self, standing: Standing) -> bool:
        """Whether its connection to the broker was broken within the longest of the broker's timeouts."""
        upstream_rebalance_ms = standing.rebalance_timeout_ms + (standing.session_timeout_ms or 0) + 10_000
        longest_ms = max(self._watch.broker.config.consumer_session_timeout_ms, upstream_rebalance_ms)
        return self._watch.kernel.now_ms - standing.broken_ms <= longest_ms


def _begins_anew(standing: Standing) -> bool:
    """Whether a client has given up its membership and all that it worked on, and joins without a member id."""
    return bool(standing.joins_waiting) and not standing.client.held and not standing.client.member_id
