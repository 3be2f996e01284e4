"""Invariant 2: no request of the proxy makes the broker free a partition that a client has a right to work on.

Each request is judged twice: when it is sent, by what it could release, and when it arrives, by what the broker then
takes as free.
"""

from typing import TYPE_CHECKING, Any

from coordinator.consumer_groups.member import STATIC_LEAVE_EPOCH
from protocol_codecs import ApiKey
from tests.simulation.standing import Pid
from tests.simulation.violation import Violation
from translation.actions import Call

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch


class ReleaseWatch:
    """Checks owned lists, epochs -1 and -2, and LeaveGroups against what clients work on."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch

    def check_call(self, process: "ProxyProcess", call: Call) -> None:
        """Check a request of the proxy when it is sent."""
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            if call.message.member_epoch < 0:
                self._watch.memberships.expired(process, call.message.member_id)
            self._check_heartbeat(str(process), call.message)
        elif call.api_key == ApiKey.LEAVE_GROUP:
            for identity in call.message.members:
                self._check_kept(str(process), identity.member_id, frozenset())

    def released(
        self, broker: "Broker", member_id: str, partitions: frozenset[Pid], *, is_late: bool
    ) -> None:
        """The coordinator has served a heartbeat, and takes these partitions as free now.

        An owned list that arrives when its connection has been given up (``is_late``) may free what its client has got
        since, on another connection. Nobody can call it back: a member of the new protocol has that hole with its
        broker too.
        """
        if is_late and (free := self._free_of_a_right(member_id, partitions)):
            standing = self._watch.client_of[member_id]
            self._watch.count("an owned list frees what its client has got since")
            self._watch.tell(broker, f"takes {self._watch.story.partitions(free)} for free by a late request")
            standing.end("an owned list arrived after its connection was given up")
        self._check_free(str(broker), member_id, partitions)

    def _check_heartbeat(self, who: str, heartbeat: Any) -> None:
        if heartbeat.member_epoch == STATIC_LEAVE_EPOCH:
            self._end_if_taken_over(heartbeat.member_id)
        if heartbeat.member_epoch < 0:
            kept: frozenset[Pid] = frozenset()
        elif heartbeat.topic_partitions is None:
            return
        else:
            kept = frozenset((t.topic_id, i) for t in heartbeat.topic_partitions for i in t.partitions)
        self._check_kept(who, heartbeat.member_id, kept)

    def _end_if_taken_over(self, member_id: str) -> None:
        """End the contract of a static member's client if another process waits to take its instance id over.

        This holds also if that process asked before this client last joined, since a call counts at any moment until it
        is answered, and also if this client has not heard of its membership yet. And it holds for a JoinGroup of this
        client itself, which it gave up before it joined through another process. Nobody can tell such a JoinGroup from
        one that comes late, until its connection is heard to have ended; a broker can't either.
        """
        watch = self._watch
        joining = (one for one in watch.standings.values() if one.joins_as == member_id)
        standing = watch.client_of.get(member_id) or next(joining, None)
        if standing is not None and standing.taking_over_late:
            standing.end("an older JoinGroup of its own takes its instance id over")
        for other in watch.standings.values():
            if (
                standing is not None
                and other is not standing
                and other.instance_id is not None
                and other.instance_id == standing.instance_id
                and other.taking_over & other.joins_waiting
            ):
                standing.end("another process has its instance id")
                standing.replaced = True

    def _check_kept(self, who: str, member_id: str, kept: frozenset[Pid]) -> None:
        """Check the release of everything that the broker counts as the member's, except ``kept``."""
        self._check_free(who, member_id, self._watch.broker.owned(member_id) - kept)

    def _check_free(self, who: str, member_id: str, partitions: frozenset[Pid]) -> None:
        watch = self._watch
        released = self._free_of_a_right(member_id, partitions)
        if released:
            client = watch.client_of[member_id].client
            raise Violation(
                2, f"{who} releases {watch.story.partitions(released)} while {client} works on it"
            )

    def _free_of_a_right(self, member_id: str, partitions: frozenset[Pid]) -> frozenset[Pid]:
        """Those of the partitions that the member's client works on and has a right to."""
        watch = self._watch
        standing = watch.client_of.get(member_id)
        if standing is None or standing.session_timeout_ms is None or not standing.client.held:
            return frozenset()
        working_on = standing.client.held - standing.disowned
        released = frozenset(pid for pid in working_on & partitions if watch.broker.image.by_id(pid[0]))
        return released if released and standing.excuse() is None else frozenset()
