"""A consumer of the classic protocol (KIP-62, KIP-429), with the quirks that its ``Habits`` name.

The partitions that it holds change only here, as in the libraries:

* an eager client gives everything up before it sends JoinGroup, after its application has had time to finish;
* a cooperative one keeps everything, gives up after SyncGroup what it was not assigned again, and then joins once
  more;
* after UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION on Heartbeat, SyncGroup and commit it loses everything at its next
  poll; on JoinGroup only if its library does that;
* after an answered SyncGroup it holds the assignment.
"""

from enum import StrEnum
from typing import Any

import msgspec

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.clients import leader
from tests.simulation.clients.caller import Caller, Surroundings
from tests.simulation.clients.habits import Claims, Connections, Habits
from tests.simulation.clients.speech import (
    Named,
    commit_request,
    join_request,
    leave_request,
    read_assignment,
)
from tests.simulation.standing import Pid
from tests.simulation.wire import GROUP

_REQUEST_TIMEOUT_MS = 30_000
_RETRY_MS = 100
_LOSES_PATIENCE = 2
"""How often an impatient client sends JoinGroup again before it waits as long as others do."""

_MOST_OUTSTANDING = 30
"""With so many requests unanswered it sends no further commit."""

_LOOK_FOR_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_MEMBERSHIP_OVER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class Phase(StrEnum):
    """The phase of the client's rebalance."""

    UNJOINED = "unjoined"
    REVOKING = "revoking"
    JOINING = "joining"
    SYNCING = "syncing"
    ADJUSTING = "adjusting"
    """Its application gives up what it was not assigned again."""

    STABLE = "stable"


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals of one client's configuration and application, in milliseconds."""

    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 12_000
    heartbeat_ms: int = 2_000
    poll_ms: int = 500
    commit_ms: int = 2_000
    commits_at_once: int = 1
    """How many commits it sends one behind the other, without waiting for the answers."""
    revoke_ms: int = 50


class ClassicClient(Caller):
    """A classic consumer. ``topics`` is its subscription, ``instance_id`` makes it static."""

    def __init__(
        self,
        name: str,
        world: Surroundings,
        habits: Habits,
        pace: Pace,
        topics: frozenset[str],
        instance_id: str | None = None,
    ) -> None:
        super().__init__(name, world)
        self.habits = habits
        self.pace = pace
        self.topics = topics
        self.asked_for = topics
        """Its subscription in its last JoinGroup."""
        self.instance_id = instance_id
        self.phase = Phase.UNJOINED
        self.member_id = ""
        self.generation = -1
        self.previous_generation = -1
        self.protocol = ""
        self.fenced = False
        self.names: dict[Pid, Named] = {}
        self.memory: frozenset[Named] = frozenset()
        """Its last assignment, whatever happened since (kafka-python)."""
        self.lost_all = False
        """Told that its membership is over; noticed at the next poll."""
        self.wants_rejoin = False
        self.offsets: dict[Named, int] = {}
        self.zombie_generation = -1
        self._attempt = 0
        self._impatience = 0
        self._members: tuple[Any, ...] = ()
        self._led: dict[str, Any] | None = None
        """The topics when it shared out their partitions, as the leader of a classic group."""
        self._heartbeat_out = False
        self._heartbeat_due_ms = 0
        self._told_ms = self.kernel.now_ms
        """When its coordinator last answered."""
        self.counts_its_session = False
        """Whether it gives up its membership, and its member id, when no coordinator has answered for its session."""
        self._commit_due_ms = 0

    # -- the application's loop ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start polling."""
        self._poll()
        if not self.habits.heartbeats_between_polls:
            self._heartbeat_thread()
        if self.habits.shares_with_fetch:
            self._fetch()

    def _poll(self) -> None:
        now_ms = self.kernel.now_ms
        self._count_session(now_ms)
        if self.lost_all:
            self.lost_all = False
            self.hold(())
            self.phase = Phase.UNJOINED
        if self.phase is Phase.UNJOINED or (self.phase is Phase.STABLE and self.wants_rejoin):
            self._prepare()
        elif self.habits.cooperative and self.phase in {Phase.JOINING, Phase.SYNCING}:
            self._commit_if_due(now_ms)  # it goes on with what it keeps
        elif self.phase is Phase.STABLE:
            if self._led is not None and self._led != self.watch.topics():
                self.wants_rejoin = True  # as the leader of a classic group it looks after the topics
            if self.habits.heartbeats_between_polls and now_ms >= self._heartbeat_due_ms:
                self.watch.count("vice: heartbeats between polls only")
                self._heartbeat()
            self._commit_if_due(now_ms)
        self.later(self.pace.poll_ms, self._poll)

    def _count_session(self, now_ms: int) -> None:
        """As librdkafka ("session timed out …: revoking assignment and rejoining group") and kafka-python do."""
        if (
            self.counts_its_session
            and self.phase is Phase.STABLE
            and self.generation >= 0
            and now_ms - self._told_ms >= self.pace.session_timeout_ms
        ):
            self.watch.session_over(self)
            self._forget_id()
            self.lost_all = True

    def _commit_if_due(self, now_ms: int) -> None:
        if now_ms >= self._commit_due_ms:
            self._commit_due_ms = now_ms + self.pace.commit_ms
            for _ in range(self.pace.commits_at_once):
                if self.count_outstanding() < _MOST_OUTSTANDING:
                    self.commit()

    def _heartbeat_thread(self) -> None:
        if self.phase is not Phase.UNJOINED and self.phase is not Phase.JOINING and not self.lost_all:
            self._heartbeat()
        self.later(self.pace.heartbeat_ms, self._heartbeat_thread)

    def _fetch(self) -> None:
        """Send the long poll that its group calls wait behind."""

        def again(_: Any = None) -> None:
            self.later(_RETRY_MS, self._fetch)

        self.ask("group", ApiKey.FETCH, 4, None, again, again, timeout_ms=_REQUEST_TIMEOUT_MS)

    def is_kept_out(self, *, of_consumer_group: bool) -> bool:
        """Whether the broker refuses its JoinGroup: Kafka can't read such a subscription in a consumer group."""
        return of_consumer_group and self.habits.truncates and self.phase is Phase.JOINING and not self.held

    @property
    def is_stable(self) -> bool:
        """Whether it has an assignment, and has not been told that its membership is over."""
        return self.phase is Phase.STABLE and not self.lost_all

    def named(self) -> frozenset[Named]:
        """Return the partitions that it holds, by topic name."""
        return frozenset(self.names[pid] for pid in self.held)

    # -- joining ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.phase = Phase.REVOKING
        self.wants_rejoin = False
        self._impatience = 0
        attempt = self._attempt = self._attempt + 1
        if self.habits.cooperative or not self.held:
            if not self.habits.keeps_unsubscribed:
                self.hold(pid for pid in self.held if self.names[pid][0] in self.topics)
            self._join(attempt)
        else:
            self.later(self.pace.revoke_ms, self._revoke_all, attempt)

    def _revoke_all(self, attempt: int) -> None:
        if attempt != self._attempt or self.phase is not Phase.REVOKING:
            return
        if self.habits.commits_when_revoked and self.generation >= 0 and not self.lost_all and self.held:
            self.commit(then=lambda: self._revoked(attempt))
        else:
            self._revoked(attempt)

    def _revoked(self, attempt: int) -> None:
        if attempt == self._attempt and self.phase is Phase.REVOKING:
            self.lost_all = False
            self.hold(())
            self._join(attempt)

    def _claims(self) -> frozenset[Named]:
        match self.habits.claims:
            case Claims.NOTHING:
                return frozenset()
            case Claims.TRUTHFUL:
                return self.named()
            case Claims.FROM_MEMORY:
                return self.memory
        raise AssertionError(self.habits.claims)

    def _join(self, attempt: int) -> None:
        if attempt != self._attempt or self.fenced:
            return
        self.phase = Phase.JOINING
        if self.habits.connections is Connections.NEW_EACH_GENERATION:
            self.retire_line("group")
        self.asked_for = self.topics
        claims = self._claims()
        if not claims <= self.named():
            self.watch.count("vice: claims what it does not hold")
        if self.habits.connections is not Connections.ONE:
            self.watch.count("vice: JoinGroup on another connection than Heartbeat")
        request = join_request(
            self.habits,
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
            topics=self.topics,
            claims=claims,
            session_timeout_ms=self.pace.session_timeout_ms,
            rebalance_timeout_ms=self.pace.rebalance_timeout_ms,
        )
        self.ask(
            self._line(ApiKey.JOIN_GROUP),
            ApiKey.JOIN_GROUP,
            self.habits.join_version,
            request,
            lambda response: self._joined(attempt, request, response),
            lambda: self._join_lost(attempt),
            timeout_ms=self.pace.rebalance_timeout_ms + _REQUEST_TIMEOUT_MS,
        )
        if self.habits.impatient_after_ms and self._impatience < _LOSES_PATIENCE:
            self.later(self.habits.impatient_after_ms, self._lose_patience, attempt)

    def _lose_patience(self, attempt: int) -> None:
        if attempt == self._attempt and self.phase is Phase.JOINING:
            self.watch.count("vice: two JoinGroups race")
            self.watch.note(self, "loses patience and sends JoinGroup again on another connection")
            self.retire_line(self._line(ApiKey.JOIN_GROUP))
            self._attempt += 1
            self._impatience += 1
            self._join(self._attempt)

    def _join_lost(self, attempt: int) -> None:
        if attempt == self._attempt and self.phase is Phase.JOINING:
            if self.habits.join_error_drops_id:
                self._forget_id()
            self._join(attempt)

    def _joined(self, attempt: int, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        if attempt != self._attempt or self.phase is not Phase.JOINING:
            return
        code = response.error_code
        if code == ErrorCode.NONE:
            self._begin_generation(response)
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join(attempt)
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced_out()
        else:
            self._join_failed(attempt, code)

    def _join_failed(self, attempt: int, code: int) -> None:
        if self.held and not self.habits.gives_up_when_join_fails:
            self.watch.count("vice: keeps its partitions when JoinGroup fails")
        if code in _MEMBERSHIP_OVER:
            self.generation = -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID or self.habits.illegal_generation_drops_id:
                self.member_id = ""
            if self.habits.gives_up_when_join_fails:
                self.hold(())
        elif code in _LOOK_FOR_COORDINATOR:
            self.close_lines()
        if self.habits.join_error_drops_id:
            self._forget_id()
        self.later(_RETRY_MS, self._join, attempt)

    def _forget_id(self) -> None:
        self.member_id = ""
        self.generation = -1

    def _begin_generation(self, response: JoinGroupResponse) -> None:
        self.member_id = response.member_id
        self._told_ms = self.kernel.now_ms
        if self.generation >= 0 and self.generation != response.generation_id:
            self.zombie_generation = self.previous_generation
            self.previous_generation = self.generation
        self.generation = response.generation_id
        self.protocol = response.protocol_name or ""
        self._members = response.members if response.leader == response.member_id else ()
        self.lost_all = False
        self._sync(self._attempt)

    # -- syncing ---------------------------------------------------------------------------------------------------

    def _sync(self, attempt: int) -> None:
        if attempt != self._attempt:
            return
        self.phase = Phase.SYNCING
        self._led = self.watch.topics() if self._members else None
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer" if self.habits.sync_version >= 5 else None,
            protocol_name=self.protocol if self.habits.sync_version >= 5 else None,
            assignments=leader.assign(self.watch.partition_counts(), self._members),
        )
        self.ask(
            self._line(ApiKey.SYNC_GROUP),
            ApiKey.SYNC_GROUP,
            self.habits.sync_version,
            request,
            lambda response: self._synced(attempt, request.generation_id, response),
            lambda: self._sync_lost(attempt),
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def _sync_lost(self, attempt: int) -> None:
        if attempt != self._attempt or self.phase is not Phase.SYNCING:
            return
        if self.habits.repeats_sync and not self.lost_all:
            self._sync(attempt)
        else:
            self.phase = Phase.UNJOINED

    def _synced(self, attempt: int, generation: int, response: SyncGroupResponse) -> None:
        if attempt != self._attempt or self.phase is not Phase.SYNCING:
            return
        if generation != self.generation:
            self.phase = Phase.UNJOINED  # a Heartbeat was told meanwhile that its membership is over
            return
        code = response.error_code
        if code != ErrorCode.NONE:
            self.phase = Phase.UNJOINED
            self._told(code)
            if code in _MEMBERSHIP_OVER:
                self.hold(())
                self.lost_all = False
            return
        self.wants_rejoin = self.asked_for != self.topics
        self.lost_all = False
        named = read_assignment(response.assignment)
        # A broker starts no rebalance when a static member of a classic group comes back with other topics (KIP-345).
        # In a consumer group a classic member gets what it had until the next assignment is computed.
        may_be_of_before = self.instance_id or self.watch.broker.group is not None
        if not (may_be_of_before and self.watch.standings[self].classic):
            assert all(topic in self.asked_for for topic, _ in named), "assigned what it did not subscribe to"
        self.memory = named
        ids = self.watch.ids_for(self, named)
        self.names.update(ids)
        assigned = frozenset(ids)
        revoked = self.held - assigned
        if self.habits.cooperative and revoked:
            # onPartitionsRevoked for what is gone comes first; then it joins again without it.
            self.phase = Phase.ADJUSTING
            self.later(self.pace.revoke_ms, self._adjust, attempt, assigned)
        else:
            self.phase = Phase.STABLE
            self.watch.renewed(self)
            self.hold(assigned)

    def _adjust(self, attempt: int, assigned: frozenset[Pid]) -> None:
        if attempt != self._attempt or self.phase is not Phase.ADJUSTING:
            return
        self.phase = Phase.STABLE
        if not self.lost_all:  # else its next poll gives up everything
            self.watch.renewed(self)
            self.hold(assigned)
            self.wants_rejoin = self.wants_rejoin or self.habits.rejoins_after_revoking

    # -- staying ---------------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        if self._heartbeat_out or self.generation < 0 or self.fenced:
            return
        self._heartbeat_out = True
        self._heartbeat_due_ms = self.kernel.now_ms + self.pace.heartbeat_ms
        attempt = self._attempt
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

        def answered(response: HeartbeatResponse) -> None:
            self._heartbeat_out = False
            self._told_ms = self.kernel.now_ms
            if attempt == self._attempt and request.generation_id == self.generation:
                self._told(response.error_code)

        def lost() -> None:
            self._heartbeat_out = False

        self.ask(
            self._line(ApiKey.HEARTBEAT),
            ApiKey.HEARTBEAT,
            self.habits.heartbeat_version,
            request,
            answered,
            lost,
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def _told(self, code: int) -> None:
        """Handle an error of Heartbeat, SyncGroup or commit that concerns the membership."""
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.habits.ignores_rebalance_ms and self.phase is Phase.STABLE:
                self.watch.count("vice: ignores REBALANCE_IN_PROGRESS for a while")
                self.later(self.habits.ignores_rebalance_ms, self._stop_ignoring, self._attempt)
            else:
                self.wants_rejoin = True
        elif code in _MEMBERSHIP_OVER:
            self.generation = -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID or self.habits.illegal_generation_drops_id:
                self.member_id = ""
            self.lost_all = True
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced_out()
        elif code in _LOOK_FOR_COORDINATOR:
            self.close_lines()

    def _stop_ignoring(self, attempt: int) -> None:
        if attempt == self._attempt:
            self.wants_rejoin = True

    def _fenced_out(self) -> None:
        self.fenced = True
        self.watch.note(self, "was fenced: another process has its instance id")
        if not self.habits.consumes_when_fenced:
            self.stop("fenced")

    # -- committing ------------------------------------------------------------------------------------------------

    def commit(self, then: Any = None, generation: int | None = None) -> None:
        """Commit the offsets of its partitions; ``generation`` is an older one for a thread that is late."""
        named = self.named()
        if not named or self.member_id == "" or self.generation < 0:
            if then is not None:
                then()
            return
        own = generation is None
        request = commit_request(
            member_id=self.member_id,
            instance_id=self.instance_id if self.habits.commit_version >= 7 else None,
            generation=self.generation if generation is None else generation,
            offsets=self.next_offsets(),
        )
        attempt = self._attempt

        def answered(response: Any) -> None:
            codes = {p.error_code for topic in response.topics for p in topic.partitions}
            if own and attempt == self._attempt and request.generation_id_or_member_epoch == self.generation:
                for code in sorted(codes):
                    self._told(code)
            if then is not None:
                then()

        self.ask(
            self._line(ApiKey.OFFSET_COMMIT),
            ApiKey.OFFSET_COMMIT,
            self.habits.commit_version,
            request,
            answered,
            then or (lambda: None),
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def next_offsets(self) -> dict[Named, int]:
        """Return what is to be committed now of the partitions that it works on: no two commits are the same."""
        for one in self.named():
            self.offsets[one] = self.offsets.get(one, 0) + 1
        return {one: self.offsets[one] for one in self.named()}

    # -- leaving ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop in order: commit nothing more, give everything up, and send LeaveGroup unless it is static."""
        if self.instance_id is not None or self.member_id == "" or self.fenced:
            self.stop("closed")
            return
        self._attempt += 1
        self.phase = Phase.REVOKING
        self.fenced = True  # nothing more is sent but this
        self.hold(())
        self.watch.leaving(self)
        request = leave_request(self.habits, member_id=self.member_id, instance_id=self.instance_id)
        line = (
            "leave"
            if self.habits.connections is Connections.NEW_EACH_GENERATION
            else self._line(ApiKey.LEAVE_GROUP)
        )
        self.ask(
            line,
            ApiKey.LEAVE_GROUP,
            self.habits.leave_version,
            request,
            lambda _: self.stop("closed"),
            lambda: self.stop("closed"),
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def _line(self, api_key: ApiKey) -> str:
        apart = self.habits.connections is Connections.JOIN_APART
        return "join" if apart and api_key in {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP} else "group"
