"""The public interface of the coordinator: requests, time and topics in; answers out.

    coordinator = GroupCoordinator(CoordinatorConfig(), uuids=SeededUuids(1), log=MemoryLog())
    coordinator.update_image(image, now_ms)
    replies = coordinator.handle(request, Call(request_id=1, version=1, client_id="c"), now_ms)
    replies = coordinator.advance(now_ms)               # when next_deadline_ms() has come

Every call returns the answers that have become due, possibly those of earlier requests that had to wait. Nothing here
waits, reads a clock or draws a random number of its own, so the same calls lead to the same answers; the whole object
can be copied (``copy.deepcopy``) and compared (:func:`coordinator.snapshot.fingerprint`).
"""

from collections.abc import Callable
from typing import Any

from coordinator import expiration
from coordinator.classic_groups import rebalance, waiting
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.config import CoordinatorConfig, GroupConfig
from coordinator.consumer_groups import fencing, regular_expressions
from coordinator.consumer_groups.client_side import computing
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import MemberState
from coordinator.errors import CoordinatorError
from coordinator.handlers import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
)
from coordinator.image import MetadataImage, delta_between
from coordinator.log.batches import ABORT_MARKER, COMMIT_MARKER, LoggedBatch, RecordLog
from coordinator.modern_group import ModernGroup
from coordinator.replay import end_transaction, replay
from coordinator.shard import Call, EndOffset, Reply, Shard
from coordinator.share_groups import fencing as share_fencing
from coordinator.share_groups import initialization
from coordinator.share_groups.group import ShareGroup
from coordinator.share_state import ShareState
from coordinator.timers import (
    ClassicHeartbeat,
    ClassicJoin,
    ClassicSync,
    ComputationTimeout,
    InitialRebalance,
    JoinTimeout,
    OffsetExpiration,
    RebalanceTimeout,
    RegexResolution,
    SessionTimeout,
    ShareSessionTimeout,
    ShareStateInitialization,
    SyncTimeout,
    Timer,
)
from coordinator.uuids import UuidSource
from protocol_codecs import all_messages as m
from protocol_codecs import experimental as x
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message

Handler = Callable[[Shard, Any, Call], Message | None]

HANDLERS: dict[type[Message], Handler] = {
    m.OffsetCommitRequest: offset_commit.serve,
    m.OffsetFetchRequest: offset_fetch.serve,
    m.JoinGroupRequest: join_group.serve,
    m.HeartbeatRequest: heartbeat.serve,
    m.LeaveGroupRequest: leave_group.serve,
    m.SyncGroupRequest: sync_group.serve,
    m.DescribeGroupsRequest: describe_groups.serve,
    m.ListGroupsRequest: list_groups.serve,
    m.TxnOffsetCommitRequest: txn_offset_commit.serve,
    m.DeleteGroupsRequest: delete_groups.serve,
    m.OffsetDeleteRequest: offset_delete.serve,
    m.ConsumerGroupHeartbeatRequest: consumer_group_heartbeat.serve,
    m.ConsumerGroupDescribeRequest: consumer_group_describe.serve,
    m.ShareGroupHeartbeatRequest: share_group_heartbeat.serve,
    m.ShareGroupDescribeRequest: share_group_describe.serve,
    m.DescribeShareGroupOffsetsRequest: describe_share_group_offsets.serve,
    m.AlterShareGroupOffsetsRequest: alter_share_group_offsets.serve,
    m.DeleteShareGroupOffsetsRequest: delete_share_group_offsets.serve,
}
"""The handler of each request type."""

EXPERIMENTAL_HANDLERS: dict[type[Message], Handler] = {
    x.ClientAssignorsHeartbeatRequest: consumer_group_heartbeat.serve,
    x.ConsumerGroupPrepareAssignmentRequest: consumer_group_prepare_assignment.serve,
    x.ConsumerGroupInstallAssignmentRequest: consumer_group_install_assignment.serve,
}
"""Those of client-side assignors, served only if the configuration says so."""


class UnservedRequest(CoordinatorError):
    """The group coordinator does not serve this request."""


class GroupCoordinator:
    """One coordinator: the groups of one shard, their offsets and their log."""

    def __init__(
        self,
        config: CoordinatorConfig,
        *,
        uuids: UuidSource,
        log: RecordLog | None = None,
        image: MetadataImage | None = None,
        share_state: ShareState | None = None,
        end_offset: EndOffset | None = None,
    ) -> None:
        """Start empty. ``end_offset`` is for the lags that DescribeShareGroupOffsets shows; without it they are -1."""
        self.shard = Shard(config, uuids=uuids, log=log, image=image, share_state=share_state)
        if end_offset is not None:
            self.shard.end_offset = end_offset
        self._waiting_joins: dict[int, int] = {}
        """Versions of the JoinGroup requests that wait, by request id."""

    # In

    def handle(self, request: Message, call: Call, now_ms: int) -> list[Reply]:
        """Serve a request; its own answer is among those returned, unless it has to wait.

        Raises UnservedRequest.
        """
        handler = HANDLERS.get(type(request))
        if handler is None and self.shard.config.experimental_client_assignors:
            handler = EXPERIMENTAL_HANDLERS.get(type(request))
        if handler is None:
            raise UnservedRequest(type(request).__name__)
        self.shard.now_ms = now_ms
        if isinstance(request, m.JoinGroupRequest):
            self._waiting_joins[call.request_id] = call.version
        response = handler(self.shard, request, call)
        if response is not None:
            self.shard.reply(call.request_id, response)
        return self.advance(now_ms)

    def advance(self, now_ms: int) -> list[Reply]:
        """Run all timers that are due."""
        self.shard.now_ms = now_ms
        while (timer := self.shard.timers.pop_due(now_ms)) is not None:
            self._fire(timer)
        replies, self.shard.replies = self.shard.replies, []
        return [self._in_version(reply) for reply in replies]

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` must be called next; None without timers."""
        return self.shard.timers.next_deadline_ms()

    def forget(self, request_id: int) -> None:
        """Drop the response of a waiting request whose client has disconnected. The member stays."""
        self._waiting_joins.pop(request_id, None)

    def update_image(self, image: MetadataImage, now_ms: int) -> list[Reply]:
        """Apply a change of the cluster's topics."""
        shard = self.shard
        delta = delta_between(shard.image, image)
        shard.now_ms, shard.image = now_ms, image
        if delta.created:
            shard.version_with_new_topics = image.version
        touched = {topic.name for topics in (delta.created, delta.changed, delta.deleted) for topic in topics}
        for group in shard.groups.values():
            if isinstance(group, ModernGroup) and not touched.isdisjoint(group.subscribed_topics):
                group.request_metadata_refresh()
        if delta.deleted:
            expiration.delete_offsets_of(shard, delta.deleted)
            initialization.forget_topics(shard, delta.deleted)
        return self.advance(now_ms)

    def set_group_config(self, group_id: str, config: GroupConfig) -> None:
        """Change the settings of a group; they apply from its next heartbeat."""
        self.shard.group_configs[group_id] = config

    def end_transaction(self, producer_id: int, *, committed: bool, now_ms: int) -> None:
        """Complete a producer's transaction."""
        self.shard.now_ms = now_ms
        if self.shard.log is not None:
            marker = COMMIT_MARKER if committed else ABORT_MARKER
            self.shard.log.append_marker(producer_id, marker, now_ms)
        self.shard.next_record_offset += 1
        end_transaction(self.shard, producer_id, committed=committed)

    # Start and stop

    def load(self, now_ms: int) -> None:
        """Read the log, and restart all sessions. Raises CorruptLog and BrokenInvariant."""
        self.shard.now_ms = now_ms
        if self.shard.log is not None:
            for batch in self.shard.log.read():
                self.replay(batch)
        self.start(now_ms)

    def replay(self, batch: LoggedBatch) -> None:
        """Apply one change from a log."""
        if batch.marker is not None:
            end_transaction(self.shard, batch.producer_id, committed=batch.marker == COMMIT_MARKER)
            self.shard.next_record_offset = batch.base_offset + 1
            return
        self.shard.next_record_offset = batch.base_offset
        for record in batch.records:
            replay(self.shard, record, batch.producer_id)
            self.shard.next_record_offset += 1

    def start(self, now_ms: int) -> None:
        """Start all members' sessions after the log was replayed."""
        shard = self.shard
        shard.now_ms = now_ms
        for group in shard.groups.values():
            if isinstance(group, ConsumerGroup):
                self._start_consumer_group(group)
            elif isinstance(group, ShareGroup):
                timeout_ms = shard.share_session_timeout_ms(group.group_id)
                for member_id in group.members:
                    shard.schedule(ShareSessionTimeout(group.group_id, member_id), timeout_ms)
            else:
                for member in group.members.values():
                    rebalance.expect_heartbeat(shard, group, member)
                if len(group.members) > shard.config.classic_max_size:
                    rebalance.prepare(shard, group)
        expiration.schedule(shard)

    def unload(self) -> list[Reply]:
        """Stop: waiting requests are answered NOT_COORDINATOR. No method may be called afterwards."""
        shard = self.shard
        for group in shard.groups.values():
            if isinstance(group, ClassicGroup):
                group.transition_to(ClassicGroupState.DEAD, shard.now_ms)
                for member in group.members.values():
                    waiting.answer_join_with_error(shard, member, ErrorCode.NOT_COORDINATOR)
                    waiting.answer_sync_with_error(shard, member, ErrorCode.NOT_COORDINATOR)
        replies, shard.replies = shard.replies, []
        return [self._in_version(reply) for reply in replies]

    def _start_consumer_group(self, group: ConsumerGroup) -> None:
        shard = self.shard
        for member in group.members.values():
            timeout_ms = shard.session_timeout_ms(group.group_id)
            shard.schedule(SessionTimeout(group.group_id, member.member_id), timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                timer = RebalanceTimeout(group.group_id, member.member_id, member_epoch=member.member_epoch)
                shard.schedule(timer, member.rebalance_timeout_ms)

    def _fire(self, timer: Timer) -> None:
        shard = self.shard
        match timer:
            case SessionTimeout() | JoinTimeout() | SyncTimeout():
                fencing.expire(shard, timer.group_id, timer.member_id)
            case RebalanceTimeout():
                fencing.expire(shard, timer.group_id, timer.member_id, only_at_epoch=timer.member_epoch)
            case ComputationTimeout():
                computing.on_timeout(shard, timer)
            case ShareSessionTimeout():
                share_fencing.expire(shard, timer.group_id, timer.member_id)
            case ShareStateInitialization():
                initialization.finish(shard, timer)
            case RegexResolution():
                regular_expressions.resolve(shard, timer)
            case ClassicHeartbeat():
                rebalance.on_heartbeat_missed(shard, timer.group_id, timer.member_id)
            case ClassicJoin():
                rebalance.on_join_timeout(shard, timer.group_id)
            case InitialRebalance():
                rebalance.on_initial_rebalance(shard, timer)
            case ClassicSync():
                rebalance.on_sync_timeout(shard, timer)
            case OffsetExpiration():
                expiration.expire(shard)

    def _in_version(self, reply: Reply) -> Reply:
        version = self._waiting_joins.pop(reply.request_id, None)
        if version is None or not isinstance(reply.response, m.JoinGroupResponse):
            return reply
        return Reply(reply.request_id, join_group.in_version(reply.response, version))
