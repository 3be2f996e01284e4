"""A model of a worker: joins, runs what it is assigned, stops first what it may not run any more, computes if told to.

It is careful about time, as a worker has to be: it counts from the moment at which it sent a heartbeat, and stops all
that it runs when the coordinator may have taken it for dead. The coordinator may begin at any heartbeat to wait for it
to stop something; that is over only when an answer shows that the coordinator knows that it has stopped.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coordinator.connect_groups.work import Work, WorkSet, as_message, from_message
from protocol_codecs import connect_groups as c
from protocol_codecs.error_code import ErrorCode

if TYPE_CHECKING:
    from tests.coordinator.connect_groups.simulation.world import World

GROUP = "connect-cluster"
HEARTBEAT_MS, SESSION_MS = 1_000, 8_000
ANSWER_TIMEOUT_MS = 400
NAME = "compatible"


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker behaves. Probabilities, by computation or heartbeat."""

    rebalance_timeout_ms: int = 4_000
    wrong: float = 0.0
    dies_computing: float = 0.0
    slow_computing: float = 0.0
    slow_stopping: float = 0.0
    fails: float = 0.0
    keeps_old_epoch: float = 0.0
    says_too_little: float = 0.0
    """After a lost answer it does not say what it runs."""
    never_right: bool = False


class Worker:
    def __init__(self, world: "World", member_id: str, habits: Habits) -> None:
        self.world = world
        self.member_id = member_id
        self.habits = habits
        self.epoch = 0
        self.running: set[Work] = set()
        self.config_offset, self.configured = world.configs
        self.is_alive = True
        self.life = 0
        """Counts its lives and its turns: what an earlier one had planned does not happen."""
        self.times_given_up = 0
        """An answer to what it asked before it gave up all is not for it any more."""
        self.declared: tuple[object, ...] = ()
        self.is_computing = False
        self.old_epoch: int | None = None
        self.is_unsure = False
        """Whether its last heartbeat was not answered."""
        self.awaited_since_ms: int | None = None
        """Since when the coordinator may be waiting for it to stop something: when it sent a heartbeat."""
        self.answered_ms = world.kernel.now_ms
        """When it sent the last heartbeat that was answered."""
        self.must_stop: WorkSet = frozenset()

    # Life

    def start(self) -> None:
        self.life += 1
        self.is_alive, self.is_computing = True, False
        self._abandon()
        self.world.kernel.after(self.world.kernel.between(1, HEARTBEAT_MS), self._beat, self.life)

    def die(self) -> None:
        self.life += 1
        self.is_alive = False
        self.running.clear()

    def leave(self) -> None:
        self.die()
        request = c.ConnectGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        self.world.send(request, lambda _response: None)

    def read_configs(self) -> None:
        self.config_offset, self.configured = self.world.configs

    def _abandon(self) -> None:
        self.times_given_up += 1
        self.running.clear()
        self.epoch = 0
        self.declared = ()
        self.must_stop, self.is_unsure, self.awaited_since_ms = frozenset(), False, None
        self.answered_ms = self.world.kernel.now_ms

    # Heartbeats

    def _beat(self, life: int) -> None:
        if life != self.life:
            return
        kernel = self.world.kernel
        if self.epoch and kernel.now_ms - self.answered_ms >= SESSION_MS - 2 * HEARTBEAT_MS:
            self._abandon()
        sent_ms = kernel.now_ms
        self._watch_session(sent_ms)
        self._watch_rebalance(sent_ms)
        unsure = self.is_unsure
        silent = unsure and kernel.chance(self.habits.says_too_little)
        said = None if silent and self.epoch else frozenset(self.running)
        declaring = (self.config_offset, self.world.metadata_of(self.member_id))
        news = self.epoch == 0 or unsure or declaring != self.declared
        request = c.ConnectGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=self.habits.rebalance_timeout_ms if news else -1,
            client_assignors=(
                c.ConnectAssignor(
                    name=NAME, minimum_version=0, maximum_version=1, version=1, metadata=declaring[1]
                ),
            )
            if news
            else None,
            connectors_and_tasks=None if said is None else as_message(said),
            config_offset=self.config_offset if news else -1,
            configured=as_message(self.configured) if news and self.config_offset >= 0 else None,
        )
        answered = [False]
        times_given_up = self.times_given_up

        def on_answer(response: c.ConnectGroupHeartbeatResponse) -> None:
            if life == self.life and not answered[0]:
                answered[0] = True
                if times_given_up != self.times_given_up:
                    kernel.after(1, self._beat, life)
                    return
                self._on_answer(response, sent_ms, declaring, said)

        def on_silence() -> None:
            if life == self.life and not answered[0]:
                answered[0] = True
                self.is_unsure = True
                kernel.after(HEARTBEAT_MS // 4, self._beat, life)

        self.world.send(request, on_answer)
        kernel.after(ANSWER_TIMEOUT_MS, on_silence)

    def _watch_session(self, sent_ms: int) -> None:
        """Stop all at the latest when the session of the last answered heartbeat ends."""
        life, answered_ms = self.life, self.answered_ms

        def check() -> None:
            if life == self.life and self.answered_ms == answered_ms and self.epoch:
                self._abandon()

        self.world.kernel.at(max(answered_ms + SESSION_MS - 1, sent_ms), check)

    def _watch_rebalance(self, sent_ms: int) -> None:
        """Stop all before the coordinator can have waited for the rebalance timeout."""
        if self.awaited_since_ms is not None:
            return
        self.awaited_since_ms = sent_ms
        life = self.life

        def check() -> None:
            if life == self.life and self.awaited_since_ms == sent_ms and self.epoch:
                self._abandon()

        self.world.kernel.at(sent_ms + self.habits.rebalance_timeout_ms - 1, check)

    def _on_answer(
        self,
        response: c.ConnectGroupHeartbeatResponse,
        sent_ms: int,
        declared: tuple[object, ...],
        said: WorkSet | None,
    ) -> None:
        kernel = self.world.kernel
        if response.error_code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}:
            self._abandon()
            kernel.after(1, self._beat, self.life)
            return
        if response.error_code != 0:
            self.world.fail(f"{self.member_id} is answered {response.error_code}: {response.error_message}")
        self.is_unsure, self.answered_ms, self.declared = False, sent_ms, declared
        self.epoch = response.member_epoch
        if response.assignment is None:
            self.awaited_since_ms = None
        else:
            self._take(response, said)
        if response.should_compute_assignment and not self.is_computing:
            self._compute()
        kernel.after(HEARTBEAT_MS, self._beat, self.life)

    def _take(self, response: c.ConnectGroupHeartbeatResponse, said: WorkSet | None) -> None:
        """Stop first; start when it has stopped. A slow one takes longer than it may, and gives up all in time."""
        kernel = self.world.kernel
        assert response.assignment is not None
        self.world.judge.metadata_given(self.member_id, response.member_epoch, response.assignment.metadata)
        may_run = from_message(response.assignment.connectors_and_tasks)
        if said is not None and said <= may_run:
            self.awaited_since_ms = None
        must_stop = frozenset(self.running) - may_run
        if not must_stop:
            self.must_stop = frozenset()
            self.running |= may_run
            self.world.judge.look(self.member_id)
            return
        if must_stop == self.must_stop:
            return
        self.must_stop = must_stop
        slow = kernel.chance(self.habits.slow_stopping)
        takes_ms = self.habits.rebalance_timeout_ms * 2 if slow else kernel.between(1, 800)
        life = self.life

        def stop() -> None:
            if life == self.life and self.must_stop == must_stop:
                self.running -= must_stop
                self.must_stop = frozenset()

        kernel.after(takes_ms, stop)

    # Computing

    def _compute(self) -> None:
        self.is_computing = True
        life = self.life
        request = c.ConnectGroupPrepareAssignmentRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        self.world.send(request, self._unless_dead(life, self._prepared))
        self.world.kernel.after(3 * ANSWER_TIMEOUT_MS, self._compute_again, life)

    def _compute_again(self, life: int) -> None:
        if life == self.life:
            self.is_computing = False

    def _prepared(self, response: c.ConnectGroupPrepareAssignmentResponse) -> None:
        kernel, habits = self.world.kernel, self.habits
        if response.error_code != 0:
            self.is_computing = False
            return
        if kernel.chance(habits.dies_computing):
            self.world.crash(self)
            return
        slow = kernel.chance(habits.slow_computing)
        takes_ms = kernel.between(habits.rebalance_timeout_ms, 2 * habits.rebalance_timeout_ms) if slow else 5
        kernel.after(takes_ms, self._install, self.life, response)

    def _install(self, life: int, prepared: c.ConnectGroupPrepareAssignmentResponse) -> None:
        if life != self.life:
            return
        kernel = self.world.kernel
        epoch = prepared.group_epoch
        if self.old_epoch is not None and kernel.chance(self.habits.keeps_old_epoch):
            epoch = self.old_epoch
        self.old_epoch = prepared.group_epoch
        fails = kernel.chance(self.habits.fails)
        parts = {} if fails else self._assigned(prepared)
        request = c.ConnectGroupInstallAssignmentRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            group_epoch=epoch,
            error=2 if fails else 0,
            members=tuple(
                c.ConnectGroupInstallAssignmentRequestMember(
                    member_id=member_id,
                    connectors_and_tasks=tuple(one for work in part for one in as_message([work])),
                    version=1,
                    metadata=str(epoch).encode(),
                )
                for member_id, part in parts.items()
            ),
        )
        self.world.send(request, self._unless_dead(life, self._installed))

    def _installed(self, _response: c.ConnectGroupInstallAssignmentResponse) -> None:
        self.is_computing = False

    def _assigned(self, prepared: c.ConnectGroupPrepareAssignmentResponse) -> dict[str, list[Work]]:
        """Keep what is there, give what is free to who has least; or do it wrong."""
        configured = from_message(prepared.configured)
        parts = {
            member.member_id: sorted(from_message(member.connectors_and_tasks) & configured)
            for member in prepared.members
        }
        most = -(-len(configured) // len(parts))
        for part in parts.values():
            del part[most:]
        taken = {work for part in parts.values() for work in part}
        for work in sorted(configured - taken):
            min(parts.values(), key=len).append(work)
        if self.habits.never_right or self.world.kernel.chance(self.habits.wrong):
            self._spoil(parts)
        return parts

    def _spoil(self, parts: dict[str, list[Work]]) -> None:
        some = [work for part in parts.values() for work in part]
        if not some:
            parts[min(parts)].append(Work("never-configured", 7))
            return
        most = max(parts, key=lambda member_id: len(parts[member_id]))
        match self.world.kernel.between(0, 3):
            case 0:
                parts["nobody"] = [parts[most].pop()]
            case 1:
                parts[min(parts)].append(max(some))
            case 2:
                parts[most].pop()
            case _:
                parts[most].append(Work("never-configured", 7))

    def _unless_dead(self, life: int, then: Callable[..., None]) -> Callable[..., None]:
        return lambda response: then(response) if life == self.life else None
