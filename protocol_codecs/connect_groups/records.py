"""The records of a Connect group, for a log of their own.

    20003 group epoch                          20004 connectors and tasks that are configured
    20005 a worker's declarations              20006 target assignment of all workers
    20007 current assignment of a worker

The KIP's key versions are 3 to 8, which in ``__consumer_offsets`` are those of consumer groups: here 20,000 is added to
each. Its type 8, the group's settings, is left out: its later wording moved them to the controller. What the KIP's text
has no field for is in tagged fields with private numbers.
"""

from enum import IntEnum

from protocol_codecs.connect_group_keys import FIRST_TAG
from protocol_codecs.connect_groups.messages import ConnectorsAndTasks
from protocol_codecs.fields import array, binary, int8, int16, int32, int64, string
from protocol_codecs.message import Message
from protocol_codecs.records import CoordinatorRecord, TopicCodec
from protocol_codecs.records.record_types import Declared, RecordTypes, number_of


class ConnectRecordType(IntEnum):
    """The record types, by the KIP's numbers and 20,000."""

    GROUP_METADATA = 20003
    CONNECTORS_TASKS_METADATA = 20004
    MEMBER_METADATA = 20005
    TARGET_ASSIGNMENT = 20006
    CURRENT_MEMBER_ASSIGNMENT = 20007


class ConnectWorkerGroupMetadataKey(Message, versions="0"):
    """Identifies the group."""

    group_id: str = string()


class ConnectWorkerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch."""

    epoch: int = int32()


class ConnectWorkerGroupConnectorsTasksMetadataKey(Message, versions="0"):
    """Identifies the group."""

    group_id: str = string()


class ConnectWorkerGroupConnectorsTasksMetadataValue(Message, versions="0", flexible="0+"):
    """What is configured, since which group epoch, and up to where the topic of configurations was read for it."""

    epoch: int = int32()
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks)
    config_offset: int = int64(tag=FIRST_TAG)


class ConnectWorkerGroupMemberMetadataKey(Message, versions="0"):
    """Identifies group and member."""

    group_id: str = string()
    member_id: str = string()


class MemberAssignor(Message):
    """One assignor that the worker can run."""

    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    version: int = int16()
    metadata: bytes = binary()


class MemberClassicProtocol(Message):
    """One protocol that a classic worker offers."""

    name: str = string()
    metadata: bytes = binary()


class ConnectWorkerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The declarations of a worker. It has no instance id and subscribes to no topics.

    A classic worker also has a session timeout, else -1, and what its last JoinGroup offered.
    """

    group_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignors: tuple[MemberAssignor, ...] = array(MemberAssignor)
    rebalance_timeout_ms: int = int32(tag=FIRST_TAG)
    config_offset: int = int64(tag=FIRST_TAG + 1)
    session_timeout_ms: int = int32(tag=FIRST_TAG + 2, default=-1)
    classic_protocols: tuple[MemberClassicProtocol, ...] = array(MemberClassicProtocol, tag=FIRST_TAG + 3)


class ConnectWorkerGroupTargetAssignmentKey(Message, versions="0"):
    """Identifies the group."""

    group_id: str = string()


class ConnectWorkerGroupTargetAssignmentMember(Message):
    """One worker's part."""

    member_id: str = string()
    error: int = int8()
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks)
    version: int = int16()
    metadata: bytes = binary()


class ConnectWorkerGroupTargetAssignmentValue(Message, versions="0", flexible="0+"):
    """The target assignment of all workers, in one record, and the group epoch that it was computed for.

    Who computed it, where its REST API listens, and how far it had read are for classic workers.
    """

    assignment_epoch: int = int32()
    members: tuple[ConnectWorkerGroupTargetAssignmentMember, ...] = array(
        ConnectWorkerGroupTargetAssignmentMember
    )
    leader: str = string(tag=FIRST_TAG)
    leader_url: str = string(tag=FIRST_TAG + 1)
    config_offset: int = int64(tag=FIRST_TAG + 2, default=-1)


class ConnectWorkerGroupCurrentMemberAssignmentKey(Message, versions="0"):
    """Identifies group and member."""

    group_id: str = string()
    member_id: str = string()


class ConnectWorkerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """What a worker may run, at which epoch, and what it has been told to stop and has not stopped yet."""

    member_epoch: int = int32()
    error: int = int8()
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks)
    version: int = int16()
    metadata: bytes = binary()
    previous_member_epoch: int = int32(tag=FIRST_TAG)
    state: int = int8(tag=FIRST_TAG + 1)
    pending_revocation: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks, tag=FIRST_TAG + 2)


_TYPES = RecordTypes(
    {
        ConnectRecordType.GROUP_METADATA: Declared(
            ConnectWorkerGroupMetadataKey, ConnectWorkerGroupMetadataValue
        ),
        ConnectRecordType.CONNECTORS_TASKS_METADATA: Declared(
            ConnectWorkerGroupConnectorsTasksMetadataKey, ConnectWorkerGroupConnectorsTasksMetadataValue
        ),
        ConnectRecordType.MEMBER_METADATA: Declared(
            ConnectWorkerGroupMemberMetadataKey, ConnectWorkerGroupMemberMetadataValue
        ),
        ConnectRecordType.TARGET_ASSIGNMENT: Declared(
            ConnectWorkerGroupTargetAssignmentKey, ConnectWorkerGroupTargetAssignmentValue
        ),
        ConnectRecordType.CURRENT_MEMBER_ASSIGNMENT: Declared(
            ConnectWorkerGroupCurrentMemberAssignmentKey, ConnectWorkerGroupCurrentMemberAssignmentValue
        ),
    }
)


def _encode_value(record: CoordinatorRecord) -> bytes | None:
    return _TYPES.encode_value(record)


def _decode(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    return _TYPES.decode(number_of(key), key, value)


CONNECT_GROUPS = TopicCodec(_TYPES.encode_key, _encode_value, _decode)
"""The log of Connect groups."""
