"""Invariant 12: after an outage every membership that no client has any more ends as soon as at a classic broker.

A classic coordinator that loads a group gives each member a whole session timeout. So do the processes of the proxy,
once the coordinator and the member log are there again and a client has reached the coordinator. A membership that they
knew before, and that is nobody's since, has ended :data:`WITHIN_MS` after the longest session timeout at the latest,
not at the end of the session of the new protocol, 45 s on a stock broker.
"""

from typing import TYPE_CHECKING

from tests.simulation.standing import Standing
from tests.simulation.violation import Violation
from tests.simulation.wire import GROUP
from translation.member_log.records import Kind, member_key

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch
    from tests.simulation.world import World

LONGEST_SESSION_MS = 10_000
WITHIN_MS = 15_000
"""Probes of a log that was away come every 5 s, clients dial and heartbeat, and one that joins waits for partitions."""


class OutageWatch:
    """Judges what is left of memberships after an outage."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._last_over_ms = 0
        self._kept: dict[str, ProxyProcess] = {}
        """Which process had each member when the outage began."""

    def begins(self, world: "World") -> None:
        """Brokers or log go away.

        Of a member that another replica has taken, it counts who has it: that one, if it is still its client's.
        """
        has = [
            (member.member_id, process, self._has_lost(world, process, member.member_id))
            for process in world.processes
            for group in process.translator._context.registry.groups.values()
            for member in group.members.values()
            if member.joined
        ]
        for member_id, _, is_lost in has:
            if is_lost:
                self._kept.pop(member_id, None)
        self._kept.update((member_id, process) for member_id, process, is_lost in has if not is_lost)

    @staticmethod
    def _has_lost(world: "World", process: "ProxyProcess", member_id: str) -> bool:
        """Whether another replica's record counts in the log already, and this one has not read it yet."""
        if world.log_topic is None or process.member_log is None or not world.log_topic.log.oracle.history:
            return False
        counting = world.log_topic.log.oracle.history[-1].get(member_key(GROUP, member_id))
        return counting is not None and counting.writer not in process.member_log.log._members.own

    def over(self, world: "World") -> None:
        """The brokers and the log are there again."""
        self._last_over_ms = self._watch.kernel.now_ms
        self._watch.fault("brokers and log are there again")
        self._watch.kernel.after(LONGEST_SESSION_MS + WITHIN_MS, self._look, world, self._last_over_ms)

    @staticmethod
    def _log_is_away_until(world: "World") -> int:
        """Until when the log is away by a fault of its own, from all or from one process that runs."""
        ways = [
            process.member_log for process in world.processes if process.up and process.member_log is not None
        ]
        until_ms = [max(way.cannot_read_until_ms, way.cannot_write_until_ms) for way in ways]
        if world.log_topic is not None:
            until_ms.append(world.log_topic.skipped_until_ms)
        return max(until_ms, default=0)

    @staticmethod
    def _is_taken(process: "ProxyProcess", member_id: str) -> bool:
        """Whether another replica has taken a member from the one that had it: maybe for a call that was its client's
        last one, and whose answer nobody waited for any more. Nobody knows how long that client's session is.
        """
        log = None if process.member_log is None else process.member_log.log
        stored = None if log is None else log._members.present(member_key(GROUP, member_id))
        return (
            stored is not None and stored.record.kind is Kind.SERVED and stored.writer not in log._members.own
        )

    @staticmethod
    def _is_unknown(world: "World", member_id: str) -> bool:
        """Whether no record has ever said a client's session timeout, since its replica could not write when it joined.

        Whoever takes the member over goes by the default of Kafka's clients, 45 s.
        """
        if world.log_topic is None:
            return False
        key = member_key(GROUP, member_id)
        said = [
            one.stored.record.session_timeout_ms
            for one in world.log_topic.log.entries.values()
            if one.key == key
        ]
        return bool(said) and min(said) > LONGEST_SESSION_MS

    def _look(self, world: "World", over_ms: int) -> None:
        if over_ms != self._last_over_ms or world.broker.trouble is not None:
            return  # another outage has begun
        if (log_until_ms := self._log_is_away_until(world)) > over_ms:
            self._last_over_ms = log_until_ms
            self._watch.kernel.at(
                log_until_ms + LONGEST_SESSION_MS + WITHIN_MS, self._look, world, log_until_ms
            )
            return
        self._watch.count("outages judged")
        clients = [one for one in world.alive() if getattr(one, "is_stable", False)]
        if not clients:
            return
        known = {getattr(client, "member_id", "") for client in world.alive()}
        for member_id in sorted((world.broker.members() & self._kept.keys()) - known):
            standing = self._watch.client_of.get(member_id)
            if self._is_taken(self._kept[member_id], member_id) or self._is_unknown(world, member_id):
                continue
            if standing is not None and self._was_left(standing, member_id, over_ms):
                raise Violation(
                    12, f"{member_id} is a member still, {WITHIN_MS} ms after its session has ended"
                )

    @staticmethod
    def _was_left(standing: Standing, member_id: str, over_ms: int) -> bool:
        """Whether its client had left this membership behind when the outage was over; not a native one's."""
        if standing.session_timeout_ms is None:
            return False
        if standing.client.alive and standing.member_id == member_id:
            return False
        return standing.over_ms < 0 or standing.over_ms <= over_ms
