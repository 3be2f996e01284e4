"""A consumer of the new protocol (KIP-848), like Java's AsyncKafkaConsumer, connected directly or through the proxy.

Behind the proxy its calls must pass through unchanged. It revokes the partitions that its assignment no longer names,
reports that with its owned list, and only then gets more.
"""

import math
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tests.simulation.clients.caller import Caller, Surroundings
from tests.simulation.clients.speech import commit_request
from tests.simulation.plan import ALWAYS_MS, ClientPlan
from tests.simulation.standing import Pid
from tests.simulation.wire import GROUP

_REQUEST_TIMEOUT_MS = 30_000
_RETRY_MS = 200
_RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,  # into a classic group whose first rebalance is under way
    }
)
_REVOKE_MS = 50


class NativeMember(Caller):
    """A member of the new protocol; see the module."""

    def __init__(self, name: str, world: Surroundings, plan: ClientPlan) -> None:
        super().__init__(name, world)
        self.topics = plan.topics
        self.member_id = f"native-{name}"
        self.plan = plan
        self.through_proxy = plan.through_proxy
        self.epoch = 0
        self._commits_until_ms = self.kernel.now_ms + plan.commits_for_ms
        self._commit_ms = plan.pace.commit_ms
        self._offset = 0
        self.assigned: frozenset[Pid] = frozenset()
        self._told: frozenset[Pid] | None = None
        """The owned list that the broker has; None before a full request."""
        self._out = False
        self._interval_ms = 1_000
        self._next_ms = 0

    def start(self) -> None:
        """Join."""
        self._tick()
        self._commit()

    def _tick(self) -> None:
        now_ms = self.kernel.now_ms
        if not self._out and (
            now_ms >= self._next_ms or (self._told is not None and self._told != self.held)
        ):
            self._heartbeat()
        self.later(_RETRY_MS, self._tick)

    def _heartbeat(self) -> None:
        self._out = True
        self._next_ms = self.kernel.now_ms + self._interval_ms
        held = self.held
        full = self._told is None
        owned = None
        if full or self._told != held:
            topics: dict[Any, list[int]] = {}
            for topic_id, index in sorted(held):
                topics.setdefault(topic_id, []).append(index)
            owned = tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in topics.items()
            )
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=15_000 if full else -1,
            subscribed_topic_names=tuple(sorted(self.topics)) if full else None,
            topic_partitions=owned,
        )
        self.ask(
            "group",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            request,
            lambda response: self._answered(held, response),
            self._lost,
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def _lost(self) -> None:
        self._out = False
        self._told = None
        self._next_ms = 0

    def _answered(self, held: frozenset[Pid], response: ConsumerGroupHeartbeatResponse) -> None:
        self._out = False
        code = response.error_code
        if code == ErrorCode.NONE:
            self.epoch = response.member_epoch
            self._interval_ms = response.heartbeat_interval_ms
            self._told = held
            self.watch.renewed(self)
            if response.assignment is not None:
                self.assigned = frozenset(
                    (topic.topic_id, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                )
                self.later(_REVOKE_MS, self._reconcile, self.assigned)
        elif code in {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }:
            self.epoch = 0
            self.assigned = frozenset()
            self.hold(())
            self._lost()
        elif code in _RETRIABLE:
            self._told = None
            self._next_ms = self.kernel.now_ms + _RETRY_MS
        else:
            raise AssertionError(f"{self} was answered {ErrorCode(code).name}")

    def _reconcile(self, assigned: frozenset[Pid]) -> None:
        if assigned is self.assigned:  # else there is a newer one, or it is out
            self.hold(assigned)

    def _commit(self) -> None:
        """Commit the offsets of its partitions under its epoch, until it idles."""
        if self.kernel.now_ms >= self._commits_until_ms:
            return
        self.later(self._commit_ms, self._commit)
        names = {topic.topic_id: name for name, topic in self.watch.topics().items()}
        named = [(names[topic_id], index) for topic_id, index in self.held if topic_id in names]
        if not named or self.epoch <= 0:
            return
        self._offset += 1
        request = commit_request(
            member_id=self.member_id,
            instance_id=None,
            generation=self.epoch,
            offsets=dict.fromkeys(named, self._offset),
        )

        def tried(_: Any = None) -> None:
            """Ignore the result; the next commit has the same offsets and more."""

        self.ask("group", ApiKey.OFFSET_COMMIT, 9, request, tried, tried, timeout_ms=_REQUEST_TIMEOUT_MS)

    @property
    def idles_for_ms(self) -> float:
        """Return for how long it has stopped committing, by its plan; infinite if it never commits or never stops."""
        plan = self.plan
        if not 0 < plan.commits_for_ms < ALWAYS_MS:
            return math.inf
        return self.kernel.now_ms - self._commits_until_ms

    def close(self) -> None:
        """Leave with epoch -1."""
        self.hold(())
        self.watch.leaving(self)
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        self._out = True
        self.ask(
            "group",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            request,
            lambda _: self.stop("closed"),
            lambda: self.stop("closed"),
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )
