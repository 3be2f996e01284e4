"""What every heartbeat of a worker has to obey, whatever the group is; else INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""

from collections import Counter

from coordinator.connect_groups.member import Assignor
from coordinator.connect_groups.settings import (
    MAX_ASSIGNORS,
    MAX_ID_LENGTH,
    MAX_METADATA_BYTES,
    ConnectGroupSettings,
)
from coordinator.errors import RequestRefused
from protocol_codecs.connect_groups import (
    ConnectAssignor,
    ConnectGroupHeartbeatRequest,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
)
from protocol_codecs.error_code import ErrorCode

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


def check_heartbeat(request: ConnectGroupHeartbeatRequest, settings: ConnectGroupSettings) -> None:
    """Raise RequestRefused unless the request is well formed."""
    _check_ids(request)
    if request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"member epoch {request.member_epoch}: Connect has no static members")
    if request.instance_id is not None:
        raise _invalid("an instance id: Connect has no static members")
    if request.server_assignor is not None:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR, "the broker has no assignor for connectors and tasks"
        )
    if not -1 <= request.rebalance_timeout_ms <= settings.max_rebalance_timeout_ms:
        raise _invalid(f"rebalance timeout {request.rebalance_timeout_ms}")
    if request.config_offset < -1 or (request.configured is not None and request.config_offset < 0):
        raise _invalid(f"config offset {request.config_offset}")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)


def check_prepare(
    request: ConnectGroupPrepareAssignmentRequest | ConnectGroupInstallAssignmentRequest,
) -> None:
    """Raise RequestRefused unless the request names a group, a member and an epoch that a member can have."""
    _check_ids(request)
    if request.member_epoch < 0:
        raise _invalid(f"member epoch {request.member_epoch}")


def assignors_of(declared: tuple[ConnectAssignor, ...]) -> tuple[Assignor, ...]:
    """Return what a worker declares. Raises RequestRefused with INVALID_REQUEST."""
    if not 0 < len(declared) <= MAX_ASSIGNORS:
        raise _invalid(f"{len(declared)} assignors; at least 1 and at most {MAX_ASSIGNORS}")
    for assignor in declared:
        low, high = assignor.minimum_version, assignor.maximum_version
        reads_something = low >= -1 and high >= max(low, 0)
        if not assignor.name or not reads_something or not low <= assignor.version <= high:
            raise _invalid(
                f"assignor {assignor.name!r}: versions {low} to {high}, metadata {assignor.version}"
            )
        if len(assignor.metadata) > MAX_METADATA_BYTES:
            raise _invalid(f"assignor {assignor.name!r}: {len(assignor.metadata)} bytes of metadata")
    name, count = Counter(assignor.name for assignor in declared).most_common(1)[0]
    if count > 1:
        raise _invalid(f"assignor {name!r} is declared twice")
    return tuple(
        Assignor(
            name=assignor.name,
            minimum_version=assignor.minimum_version,
            maximum_version=assignor.maximum_version,
            version=assignor.version,
            metadata=assignor.metadata,
            reason=assignor.reason,
        )
        for assignor in declared
    )


def _check_join(request: ConnectGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms <= 0:
        raise _invalid("a worker joins with a rebalance timeout")
    if request.client_assignors is None:
        raise _invalid("a worker joins with its assignors")
    if request.connectors_and_tasks is None or any(
        one.connectors or one.tasks for one in request.connectors_and_tasks
    ):
        raise _invalid("a worker that joins runs nothing, and says so")


def _check_ids(
    request: ConnectGroupHeartbeatRequest
    | ConnectGroupPrepareAssignmentRequest
    | ConnectGroupInstallAssignmentRequest,
) -> None:
    for name, given in (("group id", request.group_id), ("member id", request.member_id)):
        if not 0 < len(given) <= MAX_ID_LENGTH:
            raise _invalid(f"a {name} of {len(given)} characters")


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_REQUEST, reason)
