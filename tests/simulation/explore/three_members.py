"""Two classic members, one member of the new protocol, one topic with two partitions, one process of the proxy.

The first member has both partitions when the other two arrive, all at the same moment and with the same pace, so that
their calls and answers cross in every way. From there on everything may happen in any order. Faults: a connection is
cut on either side of the proxy, a client crashes, the proxy crashes and is back at once, or time passes although
messages are in flight.
"""

import msgspec

from tests.simulation.clients.classic import Pace
from tests.simulation.clients.habits import JAVA_COOPERATIVE, JAVA_EAGER, Habits
from tests.simulation.explore.small_world import TICK_MS, SmallWorld, small_plan
from tests.simulation.plan import ClientPlan


class ThreeMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The small group to explore. ``until_ms`` is the horizon, ``faults`` how many there may be in a history."""

    name: str
    first: Habits = JAVA_EAGER
    second: Habits = JAVA_COOPERATIVE
    arrives_ms: int = 2_000
    until_ms: int = 5_000
    faults: int = 1

    def world(self) -> SmallWorld:
        """Return the group at the moment of the arrival."""
        pace = Pace(heartbeat_ms=TICK_MS, poll_ms=TICK_MS, commit_ms=2 * TICK_MS, revoke_ms=0)

        def client(name: str, habits: Habits | None, starts_ms: int) -> ClientPlan:
            return ClientPlan(
                name=name,
                starts_ms=starts_ms,
                habits=habits,
                pace=pace,
                topics=frozenset({"orders"}),
                instance_id=None,
            )

        plan = small_plan(
            client("a", self.first, 0),
            client("b", self.second, self.arrives_ms),
            client("n", None, self.arrives_ms),
        )
        return SmallWorld(plan, from_ms=self.arrives_ms, until_ms=self.until_ms, faults=self.faults)


SCOPES = (
    ThreeMembers(name="eager then cooperative"),
    ThreeMembers(name="cooperative then eager", first=JAVA_COOPERATIVE, second=JAVA_EAGER),
    ThreeMembers(name="both cooperative", first=JAVA_COOPERATIVE, second=JAVA_COOPERATIVE),
)
