"""The state of the Connect groups of one coordinator, and the operations that every handler uses."""

from collections.abc import Sequence

import msgspec

from coordinator.connect_groups.group import ConnectGroup
from coordinator.connect_groups.replay import replay
from coordinator.connect_groups.settings import ConnectGroupSettings
from coordinator.errors import BrokenInvariant, RequestRefused
from coordinator.log.batches import RecordLog
from coordinator.shard import Shard
from coordinator.timers import Timer, Timers
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord


class Counts(msgspec.Struct):
    """What happened since the start, for tests and for whoever wants to know."""

    installs: int = 0
    refused_installs: int = 0
    computation_timeouts: int = 0
    fenced: int = 0


class ConnectShard:
    """Groups, timers and log."""

    def __init__(
        self,
        settings: ConnectGroupSettings,
        *,
        log: RecordLog | None = None,
        others: Shard | None = None,
    ) -> None:
        self.settings = settings
        self.log = log
        self.others = others
        """The groups of other types, which share the ids; without them no group is converted."""
        self.now_ms = 0
        self.groups: dict[str, ConnectGroup] = {}
        self.timers = Timers()
        self.computations_begun = 0
        self.counts = Counts()

    @property
    def classic_groups(self) -> Shard:
        """Return the groups of other types. Raises BrokenInvariant without them."""
        if self.others is None:
            raise BrokenInvariant("classic workers need the groups of other types")
        return self.others

    def group(self, group_id: str) -> ConnectGroup:
        """Return the group. Raises RequestRefused with GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no Connect group {group_id!r}")
        return group

    def schedule(self, timer: Timer, delay_ms: int) -> None:
        """Schedule a timer from now."""
        self.timers.schedule(timer, self.now_ms + delay_ms)

    def apply(self, records: Sequence[CoordinatorRecord]) -> None:
        """Write one change to the log, and make it."""
        if not records:
            return
        if self.log is not None:
            self.log.append(records, self.now_ms)
        for record in records:
            replay(self.groups, record)
