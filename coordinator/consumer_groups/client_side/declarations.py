"""What members and assignors of the client's side declare: plain values."""

import msgspec

CLASSIC_VERSION = -1
"""The metadata version of what a classic member declares in JoinGroup, or is told in SyncGroup."""


class ClientAssignor(msgspec.Struct, frozen=True, kw_only=True):
    """An assignor that a member can run, with the metadata that it gives to whoever runs it."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int = 0
    """Why the metadata changed; other than 0, it asks for a new assignment."""
    metadata_version: int
    metadata: bytes = b""

    def reads(self, version: int) -> bool:
        """Whether the member's assignor reads metadata of this version."""
        return self.minimum_version <= version <= self.maximum_version


class AssignmentDetails(msgspec.Struct, frozen=True):
    """What an assignor says to one member beside its partitions."""

    error: int = 0
    metadata_version: int = 0
    metadata: bytes = b""


NO_DETAILS = AssignmentDetails()
"""Those of a server-side assignor."""
