"""A member of a consumer group: an immutable value that is replaced when the member changes."""

from enum import IntEnum
from typing import TYPE_CHECKING, Self

import msgspec

from coordinator.consumer_groups.client_side.declarations import (
    NO_DETAILS,
    AssignmentDetails,
    ClientAssignor,
)
from coordinator.partitions import EpochedPartitions
from protocol_codecs.uuids import Uuid

if TYPE_CHECKING:  # shadows have no log, so they need no records
    from protocol_codecs.records import ConsumerGroupClassicMemberMetadata, ConsumerGroupClassicProtocol

LEAVE_EPOCH = -1
"""The member epoch that says goodbye."""
STATIC_LEAVE_EPOCH = -2
"""The member epoch of a static member that will be back."""


class MemberState(IntEnum):
    """The reconciliation state of a member, with the numbers of Kafka's records."""

    STABLE = 0
    """It owns what it was last told to own; its target may have moved on since."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""


class ConsumerGroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member. It owns ``assigned`` and ``pending_revocation`` together."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    """Sorted, without doubles."""
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: EpochedPartitions = {}
    pending_revocation: EpochedPartitions = {}
    classic: "ConsumerGroupClassicMemberMetadata | None" = None
    """The member's declarations in JoinGroup; None if it speaks the new protocol."""
    client_assignors: tuple[ClientAssignor, ...] = ()
    """The assignors that it can run itself, the preferred one first (an experiment)."""
    details: AssignmentDetails = NO_DETAILS
    """What a client-side assignor said to it, beside the partitions, at its member epoch."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def replace(self, **changes: object) -> Self:
        """Return the member with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def at_epoch(self, epoch: int) -> Self:
        """Return the member at this epoch, with its current epoch as the previous one."""
        return self.replace(member_epoch=epoch, previous_member_epoch=self.member_epoch)

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it joined with JoinGroup."""
        return self.classic is not None

    @property
    def classic_protocols(self) -> "tuple[ConsumerGroupClassicProtocol, ...]":
        """Return the assignors that a classic member offers; none for others."""
        return self.classic.supported_protocols if self.classic else ()

    @property
    def regex(self) -> str | None:
        """Return its regular expression, if it subscribes by one."""
        return self.subscribed_topic_regex or None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has reached its target at this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch at which it got this partition, if it has it (KIP-1251)."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch
