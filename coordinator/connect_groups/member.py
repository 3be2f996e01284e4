"""A worker of a Connect group: an immutable value that is replaced when the worker changes."""

from enum import IntEnum
from typing import Self

import msgspec

from coordinator.connect_groups.formats import INCREMENTAL, Said, read_worker
from coordinator.connect_groups.work import WorkSet
from protocol_codecs.all_messages import JoinGroupRequestProtocol

CONNECT_PROTOCOL_TYPE = "connect"


class MemberState(IntEnum):
    """Where a worker is on its way to the target, by the numbers of consumer groups' records."""

    STABLE = 0
    UNREVOKED = 1
    """It has not said yet that it has stopped what it was told to stop."""
    UNRELEASED = 2
    """It is at the target's epoch, but others have not stopped yet what it is to run."""


class Assignor(msgspec.Struct, frozen=True):
    """An assignor that a worker can run: the versions that it reads, and its metadata, with their version."""

    name: str
    minimum_version: int
    maximum_version: int
    version: int
    metadata: bytes = b""
    reason: int = 0
    """Not 0 if the worker asks for an assignment; what it means is the assignor's business."""

    def reads(self, version: int) -> bool:
        """Whether the assignor reads metadata of this version."""
        return self.minimum_version <= version <= self.maximum_version


class Details(msgspec.Struct, frozen=True):
    """What an assignor says to a worker beside its part."""

    error: int = 0
    version: int = 0
    metadata: bytes = b""


NO_DETAILS = Details()


class ClassicWorker(msgspec.Struct, frozen=True):
    """What a worker that speaks the classic protocol sent with its last JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]

    @property
    def said(self) -> Said:
        """Return what it says of itself. Its JoinGroup is refused if that can't be read."""
        return read_worker(self.protocols) or Said("", -1, frozenset())

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        """Return its protocols as assignors ("ConnectAssignor"): the metadata is what its leader reads."""
        return tuple(
            Assignor(one.name, 0, max(INCREMENTAL.values()), INCREMENTAL[one.name], one.metadata)
            for one in self.protocols
            if one.name in INCREMENTAL
        )


class ConnectMember(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. ``assigned`` is what it may run; it may still run ``pending_revocation``, and nobody else may."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = 0
    assignors: tuple[Assignor, ...] = ()
    """In the order of its preference."""
    config_offset: int = -1
    assigned: WorkSet = frozenset()
    pending_revocation: WorkSet = frozenset()
    details: Details = NO_DETAILS
    """Those of the target of its epoch."""
    classic: ClassicWorker | None = None
    """None for a worker that speaks the new protocol."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    @property
    def holds(self) -> WorkSet:
        """Return all that it may be running."""
        return self.assigned | self.pending_revocation

    def assignor(self, name: str) -> Assignor | None:
        """Return its declaration of the assignor of this name."""
        return next((assignor for assignor in self.assignors if assignor.name == name), None)

    def replace(self, **changes: object) -> Self:
        """Return the worker with some fields changed."""
        return msgspec.structs.replace(self, **changes)
