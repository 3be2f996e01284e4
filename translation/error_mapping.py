"""Maps the broker's error codes to those that a classic client understands.

The new protocol has codes that old clients do not know. Some that they know are fatal for them in responses in which
classic brokers never sent them. These tables are the whole mapping.
"""

from collections.abc import Mapping

from protocol_codecs import ErrorCode

MEMBERSHIP_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
"""The broker has no membership with the member id and epoch of the request."""

NOT_CONVERTIBLE = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND})
"""Codes at epoch 0 for a group that can't have members of the new protocol: a classic group that is not
convertible, a share or streams group, or a broker with the new protocol switched off."""

NO_COORDINATOR = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""The broker did nothing, because it is not the group's coordinator, or has not loaded it yet."""

MOVED_AWAY = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""The broker does not coordinate the group, or not any more: the client will go to another one."""

IS_OUT = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""Answers to an epoch that leaves, after which the broker is known not to have the member."""

ENDS_MEMBERSHIP = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""Codes for the client after which its membership is over (it joins anew, or it is told to stop)."""

_JOIN: Mapping[int, ErrorCode] = {
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID: ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_ASSIGNOR: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorCode.COORDINATOR_NOT_AVAILABLE,  # the first is fatal for clients
}

_HEARTBEAT: Mapping[int, ErrorCode] = {
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID: ErrorCode.FENCED_INSTANCE_ID,
    # Fatal for Java and aiokafka on Heartbeat; the member is fine, only its coordinator is not yet.
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NONE,
}

_CLASSIC_HEARTBEAT = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)

_COMMIT: Mapping[int, ErrorCode] = {
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
}


def for_join(error_code: int) -> int:
    """The code that a client gets for a JoinGroup when its heartbeat upstream failed."""
    return _JOIN.get(error_code, error_code)


def for_heartbeat(error_code: int) -> int:
    """The code that a client gets for a Heartbeat when the one upstream failed.

    Codes that no classic broker answers to a Heartbeat would be fatal for many clients; they become
    COORDINATOR_NOT_AVAILABLE, after which a client looks for its coordinator and tries again.
    """
    code = _HEARTBEAT.get(error_code, error_code)
    return code if code in _CLASSIC_HEARTBEAT else ErrorCode.COORDINATOR_NOT_AVAILABLE


def for_commit(error_code: int) -> int:
    """The code that a client gets for a partition of its commit."""
    return _COMMIT.get(error_code, error_code)


def for_offset_fetch(error_code: int) -> int:
    """The code that a client gets for a partition when the broker refused the whole OffsetFetch.

    For a partition aiokafka takes COORDINATOR_NOT_AVAILABLE for the end; after NOT_COORDINATOR it looks for the
    coordinator and tries again, as it should after both.
    """
    if error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return error_code
