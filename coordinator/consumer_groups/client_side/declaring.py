"""The client-side assignors that a heartbeat declares: checked, compared with those of others, and what they change."""

from collections.abc import Iterable

from coordinator.consumer_groups.client_side.choice import offers_of
from coordinator.consumer_groups.client_side.declarations import CLASSIC_VERSION, ClientAssignor
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import RequestRefused
from protocol_codecs.all_messages import ConsumerGroupHeartbeatRequest
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import ClientAssignorsHeartbeatRequest, HeartbeatClientAssignor

MOST_ASSIGNORS = 16
"""How many assignors a member may declare. The KIP has no limit; what is kept of a client has one here."""


def check(request: ClientAssignorsHeartbeatRequest) -> None:
    """Raise RequestRefused with INVALID_REQUEST unless the declared assignors are valid by themselves."""
    assignors = request.client_assignors or ()
    if assignors and request.server_assignor is not None:
        raise _invalid("a server-side and client-side assignors cannot be used together")
    if len(assignors) > MOST_ASSIGNORS:
        raise _invalid(f"{len(assignors)} client-side assignors, of which there may be {MOST_ASSIGNORS}")
    if len({assignor.name for assignor in assignors}) < len(assignors):
        raise _invalid("a client-side assignor is named twice")
    for assignor in assignors:
        _check_one(assignor)


def declared_by(
    request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember
) -> tuple[ClientAssignor, ...]:
    """Return the member's client-side assignors after this heartbeat; null in the request means no change.

    A member that names a server-side assignor has no others any more.
    """
    if request.server_assignor is not None:
        return ()
    if not isinstance(request, ClientAssignorsHeartbeatRequest) or request.client_assignors is None:
        return member.client_assignors
    return tuple(
        ClientAssignor(
            name=assignor.name,
            minimum_version=assignor.minimum_version,
            maximum_version=assignor.maximum_version,
            reason=assignor.reason,
            metadata_version=assignor.metadata_version,
            metadata=assignor.metadata_bytes,
        )
        for assignor in request.client_assignors
    )


def check_against(new: ConsumerGroupMember, others: Iterable[ConsumerGroupMember]) -> None:
    """Raise RequestRefused unless these assignors go together with those of the other members.

    With UNSUPPORTED_ASSIGNOR if no version is read by both a member and this one; with INVALID_REQUEST if classic
    members have metadata, and an assignor does not read that (KIP-848, "Client Side Assignor" under "Migration").
    """
    for other in others:
        theirs = offers_of(other)
        if other.uses_classic_protocol:
            if any(offer.metadata for offer in theirs.values()):
                _check_reads_classic(new)
            continue
        for assignor in new.client_assignors:
            offer = theirs.get(assignor.name)
            if offer is not None and (
                assignor.minimum_version > offer.maximum_version
                or assignor.maximum_version < offer.minimum_version
            ):
                raise RequestRefused(
                    ErrorCode.UNSUPPORTED_ASSIGNOR,
                    f"{assignor.name!r} reads versions {assignor.minimum_version} to {assignor.maximum_version}, that "
                    f"of member {other.member_id!r} {offer.minimum_version} to {offer.maximum_version}",
                )


def asks_for_assignment(old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
    """Whether the change of assignors bumps the group epoch: any but that of a reason to 0."""
    if old.client_assignors == new.client_assignors:
        return False
    before = {assignor.name: assignor.reason for assignor in old.client_assignors}
    return _without_reasons(old) != _without_reasons(new) or any(
        assignor.reason not in {0, before.get(assignor.name)} for assignor in new.client_assignors
    )


def _without_reasons(member: ConsumerGroupMember) -> list[tuple[str, int, int, int, bytes]]:
    return [
        (a.name, a.minimum_version, a.maximum_version, a.metadata_version, a.metadata)
        for a in member.client_assignors
    ]


def _check_one(assignor: HeartbeatClientAssignor) -> None:
    low, high = assignor.minimum_version, assignor.maximum_version
    if not assignor.name.strip():
        raise _invalid("a client-side assignor has no name")
    if low < CLASSIC_VERSION:
        raise _invalid(f"{assignor.name!r}: minimum version {low}")
    if high < 0 or high < low:
        raise _invalid(f"{assignor.name!r}: maximum version {high}, minimum version {low}")
    if not low <= assignor.metadata_version <= high:
        raise _invalid(
            f"{assignor.name!r}: metadata version {assignor.metadata_version} is not from {low} to {high}"
        )


def _check_reads_classic(new: ConsumerGroupMember) -> None:
    for assignor in new.client_assignors:
        if not assignor.reads(CLASSIC_VERSION):
            raise _invalid(f"{assignor.name!r} does not read the metadata of classic members (version -1)")


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_REQUEST, reason)
