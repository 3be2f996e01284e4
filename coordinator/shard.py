"""The state of one coordinator, and the operations that every handler uses.

A shard corresponds to one partition of ``__consumer_offsets``: some groups, their offsets, one log. It uses no socket
and no clock: the time is ``now_ms``, which :class:`~coordinator.group_coordinator.GroupCoordinator` sets before it
calls a handler. A handler reads the shard, writes records and answers; waiting requests are kept by their ids in the
groups.
"""

from collections.abc import Callable, Sequence

import msgspec

from coordinator.classic_groups.group import ClassicGroup
from coordinator.config import CoordinatorConfig, GroupConfig, setting_of
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.errors import RequestRefused
from coordinator.image import MetadataImage
from coordinator.log.batches import RecordLog
from coordinator.metrics.activity import Activity
from coordinator.offsets import Offsets
from coordinator.replay import replay
from coordinator.share_groups.group import ShareGroup
from coordinator.share_state import ShareState
from coordinator.timers import Timer, Timers
from coordinator.uuids import UuidSource
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message
from protocol_codecs.record_batch import NO_PRODUCER_ID
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import Uuid

Group = ConsumerGroup | ClassicGroup | ShareGroup


EndOffset = Callable[[Uuid, int], int | None]
"""Where the log of a partition, by its topic's id and its number, ends; None if that is not known."""


def _unknown(_topic_id: Uuid, _partition: int) -> int | None:
    return None


class Call(msgspec.Struct, frozen=True):
    """The context of a request besides its body."""

    request_id: int
    """Identifies a later response; chosen by the caller."""
    version: int
    client_id: str = ""
    client_host: str = ""


class Reply(msgspec.Struct, frozen=True):
    """The response to a request, immediate or later."""

    request_id: int
    response: Message


class Shard:
    """Groups, offsets, timers and log of one coordinator."""

    def __init__(
        self,
        config: CoordinatorConfig,
        *,
        uuids: UuidSource,
        log: RecordLog | None = None,
        image: MetadataImage | None = None,
        share_state: ShareState | None = None,
    ) -> None:
        self.config = config
        self.group_configs: dict[str, GroupConfig] = {}
        self.uuids = uuids
        self.log = log
        self.image = image or MetadataImage()
        self.share_state = share_state or ShareState(
            updates_per_snapshot=config.share_snapshot_update_records
        )
        self.end_offset: EndOffset = _unknown
        self.version_with_new_topics = self.image.version
        """In which version of the image topics were last created."""
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.pending_offsets: dict[int, Offsets] = {}
        """Offsets of transactions that have not ended, by producer id."""
        self.next_record_offset = 0
        self.timers = Timers()
        self.computations_begun = 0
        """How often a member was chosen to compute an assignment (an experiment)."""
        self.activity = Activity()
        """What it has done, for metrics only."""
        self.now_ms = 0
        self.replies: list[Reply] = []

    # Finding groups

    def group(self, group_id: str) -> Group:
        """Return the group. Raises RequestRefused with GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        return group

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group. Raises RequestRefused with GROUP_ID_NOT_FOUND, also for one of another type."""
        group = self.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is no consumer group")
        return group

    def share_group(self, group_id: str) -> ShareGroup:
        """Return the share group. Raises RequestRefused with GROUP_ID_NOT_FOUND, also for one of another type."""
        group = self.group(group_id)
        if not isinstance(group, ShareGroup):
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is no share group")
        return group

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Return the classic group. Raises RequestRefused with GROUP_ID_NOT_FOUND, also for one of another type."""
        group = self.group(group_id)
        if not isinstance(group, ClassicGroup):
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is no classic group")
        return group

    # Settings of groups

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of a consumer group's members."""
        return self._setting(group_id, "consumer_session_timeout_ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of a consumer group's members."""
        return self._setting(group_id, "consumer_heartbeat_interval_ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the least time between two target assignments of a consumer group (KIP-1263)."""
        return self._setting(group_id, "consumer_assignment_interval_ms")

    def share_session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of a share group's members."""
        return self._setting(group_id, "share_session_timeout_ms")

    def share_heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of a share group's members."""
        return self._setting(group_id, "share_heartbeat_interval_ms")

    def share_assignment_interval_ms(self, group_id: str) -> int:
        """Return the least time between two target assignments of a share group (KIP-1263)."""
        return self._setting(group_id, "share_assignment_interval_ms")

    def _setting(self, group_id: str, field: str) -> int:
        """Return a group's own setting, else the coordinator's."""
        return int(setting_of(self.config, self.group_configs.get(group_id), field))

    # Changes, answers and timers

    def apply(self, records: Sequence[CoordinatorRecord], producer_id: int = NO_PRODUCER_ID) -> None:
        """Replay the records of a change, and log them; with a producer id the transaction's end makes it effective."""
        for record in records:
            replay(self, record, producer_id)
            self.next_record_offset += 1
        if records and self.log is not None:
            self.log.append(records, self.now_ms, producer_id)

    def append(self, records: Sequence[CoordinatorRecord]) -> None:
        """Log a change that was applied already."""
        if records:
            if self.log is not None:
                self.log.append(records, self.now_ms)
            self.next_record_offset += len(records)

    def reply(self, request_id: int, response: Message) -> None:
        """Answer a request."""
        self.replies.append(Reply(request_id, response))

    def schedule(self, timer: Timer, delay_ms: int) -> None:
        """Schedule a timer after this delay, replacing the one of its slot."""
        self.timers.schedule(timer, self.now_ms + delay_ms)

    def schedule_if_absent(self, timer: Timer, delay_ms: int) -> None:
        """Schedule a timer after this delay, unless its slot is taken."""
        self.timers.schedule_if_absent(timer, self.now_ms + delay_ms)
