"""Clients of the new protocol that can compute the assignment."""

import random
from typing import TYPE_CHECKING

from protocol_codecs.all_messages import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import (
    ClientAssignorsHeartbeatRequest,
    ClientAssignorsHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    HeartbeatClientAssignor,
)
from protocol_codecs.message import Message
from tests.coordinator.client_side.assignors import ASSIGNOR, VERSIONS, Kind, install_request
from tests.coordinator.client_side.plan import HEARTBEAT_MS, REQUEST_TIMEOUT_MS

if TYPE_CHECKING:
    from tests.coordinator.client_side.world import World

GROUP = "g"


class Member:
    """One process. ``server_side`` names a server-side assignor and computes nothing."""

    def __init__(
        self,
        world: "World",
        member_id: str,
        topics: set[str],
        *,
        instance_id: str | None = None,
        server_side: bool = False,
    ) -> None:
        self.world = world
        self.rng = random.Random(f"{world.plan.seed}/{member_id}")  # noqa: S311
        self.member_id = member_id
        self.instance_id = instance_id
        self.server_side = server_side
        self.topics = topics
        self.version = self.rng.randint(*VERSIONS)
        self.metadata = b"first of " + member_id.encode()
        self.reason = 0
        self.is_alive = True
        self.is_away = False
        """Left for a while, as static members do."""
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.details: tuple[int, int, bytes] = (0, 0, b"")
        self.pending: set[tuple[bytes, int]] = set()
        self.declared: set[str] = set()
        """What changed since the last answered heartbeat."""
        self.is_full = True
        self.heard_ms = world.now
        """When the last heartbeat that was answered was sent."""
        self._assigned: set[tuple[bytes, int]] | None = None
        self._is_revoking = False
        self._attempt = 0
        self._is_computing = False
        self._older: ConsumerGroupPrepareAssignmentResponse | None = None
        self.heartbeat()

    # Heartbeats

    def heartbeat(self) -> None:
        if not self.is_alive:
            return
        self._attempt += 1
        attempt, sent_ms = self._attempt, self.world.now
        joins = self.epoch == 0
        full = joins or self.is_full
        topics: dict[bytes, list[int]] = {}
        for topic_id, number in sorted(self.owned):
            topics.setdefault(topic_id, []).append(number)
        request = ClientAssignorsHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.world.plan.rebalance_ms if full else -1,
            subscribed_topic_names=tuple(sorted(self.topics)) if full or "topics" in self.declared else None,
            server_assignor="range" if self.server_side and full else None,
            topic_partitions=tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
                for topic_id, numbers in topics.items()
            ),
            client_assignors=(self.assignor(),)
            if not self.server_side and (full or "metadata" in self.declared)
            else None,
        )
        declared = set(self.declared)

        def answered(response: Message) -> None:
            if attempt != self._attempt or not self.is_alive:
                return
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            self._attempt += 1  # the timeout is off
            self.declared -= declared
            self._take(response, sent_ms)

        def unanswered() -> None:
            if attempt == self._attempt and self.is_alive:
                self.is_full = True
                self.heartbeat()

        self.world.send(self, request, answered)
        self.world.after(REQUEST_TIMEOUT_MS, unanswered)

    def assignor(self) -> HeartbeatClientAssignor:
        return HeartbeatClientAssignor(
            name=ASSIGNOR,
            minimum_version=VERSIONS[0],
            maximum_version=VERSIONS[1],
            reason=self.reason,
            metadata_version=self.version,
            metadata_bytes=self.metadata,
        )

    def rejoin(self) -> None:
        self.owned, self._assigned, self._is_revoking = set(), None, False
        self.pending = set()
        self.epoch, self.is_full = 0, True
        self.heard_ms = self.world.now

    def _lapse(self) -> None:
        """Give everything up if no heartbeat was answered for the session timeout: others may have it any time."""
        if self.epoch > 0 and self.world.now - self.heard_ms >= self.world.plan.session_ms:
            self.rejoin()

    def _take(self, response: ConsumerGroupHeartbeatResponse, sent_ms: int) -> None:
        if response.error_code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}:
            self.rejoin()
            self.world.after(self.rng.randint(1, 500), self.heartbeat)
            return
        if response.error_code != ErrorCode.NONE:
            assert response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID, response
            self.world.after(HEARTBEAT_MS, self.heartbeat)
            return
        self.heard_ms = sent_ms
        self.world.after(self.world.plan.session_ms - (self.world.now - sent_ms), self._lapse)
        self.epoch, self.is_full = response.member_epoch, False
        if response.assignment is not None:
            self._assigned = {
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            }
        if isinstance(response, ClientAssignorsHeartbeatResponse):
            details = response.assignment_details
            if details is not None:
                self.details = details.error, details.metadata_version, details.metadata_bytes
                self.pending = {
                    (topic.topic_id, number)
                    for topic in details.pending_topic_partitions
                    for number in topic.partitions
                }
            if response.should_compute_assignment and not self._is_computing:
                self._compute()
        if self._reconcile():
            return
        self.world.after(HEARTBEAT_MS - self.rng.randint(0, 300), self._next(self._attempt))

    def _next(self, attempt: int):
        def due() -> None:
            if attempt == self._attempt:
                self.heartbeat()

        return due

    def _reconcile(self) -> bool:
        """Give up and take over; whether a heartbeat follows at once."""
        if self._assigned is None or self._is_revoking:
            return False
        if self.owned <= self._assigned:
            self.owned = set(self._assigned)
            return False
        self._is_revoking = True
        epoch = self.epoch

        def revoked() -> None:
            if self.is_alive and self._is_revoking and self.epoch == epoch:
                self._is_revoking = False
                assert self._assigned is not None
                self.owned &= self._assigned
                self.heartbeat()
            elif self._is_revoking:
                self._is_revoking = False

        self.world.after(self.rng.randint(0, 800), revoked)
        return False

    # Computing

    def _compute(self) -> None:
        self._is_computing = True
        kind = self.world.kind_for(self)
        self.world.note(f"{self.member_id} computes: {kind}")
        if kind is Kind.UNPREPARED and self._older is not None:
            self._install(self._older, kind)
            return
        self._prepare(kind, 3)

    def _prepare(self, kind: Kind, tries: int) -> None:
        if not self.is_alive or self.epoch <= 0 or not tries:
            self._is_computing = False
            return
        request = ConsumerGroupPrepareAssignmentRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        self._call(
            request, lambda answer: self._prepared(answer, kind), lambda: self._prepare(kind, tries - 1)
        )

    def _prepared(self, answer: Message, kind: Kind) -> None:
        assert isinstance(answer, ConsumerGroupPrepareAssignmentResponse)
        if answer.error_code != 0:
            self._is_computing = False  # told again by a heartbeat, if it is still the one
            return
        older, self._older = self._older, answer
        if kind is Kind.DIES:
            self.world.die(self)
            return
        if kind is Kind.OLD and older is not None:
            answer = older
        most = {Kind.SLOW: 2 * self.world.plan.rebalance_ms}.get(kind, self.rng.choice([10, 300, 3_000]))
        least = self.world.plan.rebalance_ms // 2 if kind is Kind.SLOW else 0
        self.world.after(self.rng.randint(least, most), lambda: self._install(answer, kind))

    def _install(self, group: ConsumerGroupPrepareAssignmentResponse, kind: Kind, tries: int = 3) -> None:
        if not self.is_alive or self.epoch <= 0 or not tries:
            self._is_computing = False
            return
        request = install_request(
            GROUP, self.member_id, self.epoch, group, kind, self.rng, sorted(self.world.gone)
        )
        self._send_install(request, tries)

    def _send_install(self, request: ConsumerGroupInstallAssignmentRequest, tries: int) -> None:
        def installed(answer: Message) -> None:
            assert isinstance(answer, ConsumerGroupInstallAssignmentResponse)
            self._is_computing = False

        def again() -> None:
            if tries and self.is_alive:
                self._send_install(request, tries - 1)
            else:
                self._is_computing = False

        self._call(request, installed, again)

    def intrude(self) -> None:
        """Ask and install, whether it was chosen or not."""
        if self._is_computing or self.epoch <= 0 or self.server_side:
            return
        self._is_computing = True
        if self._older is not None and self.rng.random() < 0.5:
            self._install(self._older, Kind.RIGHT, 1)
        else:
            self._prepare(Kind.RIGHT, 1)

    def _call(self, request: Message, answered, unanswered) -> None:
        done = [False]

        def take(answer: Message) -> None:
            if not done[0]:
                done[0] = True
                answered(answer)

        def give_up() -> None:
            if not done[0]:
                done[0] = True
                unanswered()

        self.world.send(self, request, take)
        self.world.after(REQUEST_TIMEOUT_MS, give_up)
