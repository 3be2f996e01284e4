"""ConnectGroupHeartbeat, ConnectGroupPrepareAssignment and ConnectGroupInstallAssignment, v0.

Fields and their order are those of KIP-848's revision for Connect, with two exceptions. Its text leaves out the request
of the heartbeat: here it is that of consumers, with connectors and tasks for partitions, and with what the worker has
read of the topic of configurations, which is all that the coordinator knows of connectors. What the later wording for
consumers adds (ShouldComputeAssignment, and what the assignor has to assign) travels as tagged fields with private
numbers.
"""

from protocol_codecs.connect_group_keys import FIRST_TAG, ConnectApiKey
from protocol_codecs.fields import array, binary, boolean, int8, int16, int32, int64, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid

# Shared parts


class ConnectorTaskId(Message):
    """One task of a connector; the KIP names the type and does not define it. As Connect's class of this name."""

    connector: str = string()
    task: int = int32()


class ConnectorsAndTasks(Message):
    """Connectors and tasks. Wherever the KIP has a list of these, all elements together are meant."""

    connectors: tuple[str, ...] = array(string)
    tasks: tuple[ConnectorTaskId, ...] = array(ConnectorTaskId)


class ConnectAssignor(Message):
    """An assignor that the worker can run, and the metadata that it wants the computing worker to see."""

    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    version: int = int16()
    metadata: bytes = binary()


# ConnectGroupHeartbeat


class ConnectGroupHeartbeatRequest(
    Message, api_key=ConnectApiKey.CONNECT_GROUP_HEARTBEAT, versions="0", flexible="0+"
):
    """A worker joins (epoch 0), says what it runs, or leaves (epoch -1). Null, or -1: unchanged since the last one.

    ``connectors_and_tasks`` is what the worker runs. ``config_offset`` is how far it has read the topic of
    configurations, and ``configured`` are all connectors and tasks that it found there.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    client_assignors: tuple[ConnectAssignor, ...] | None = array(ConnectAssignor, nullable="0+", default=None)
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] | None = array(
        ConnectorsAndTasks, nullable="0+", default=None
    )
    config_offset: int = int64(default=-1)
    configured: tuple[ConnectorsAndTasks, ...] | None = array(ConnectorsAndTasks, nullable="0+", default=None)


class ConnectGroupHeartbeatResponseAssignment(Message):
    """All that the worker may run now; it stops what it runs beside that before it starts anything.

    ``error``, ``version`` and ``metadata`` are of the assignor, and belong to the member epoch of the answer.
    """

    error: int = int8()
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks)
    version: int = int16()
    metadata: bytes = binary()


class ConnectGroupHeartbeatResponse(
    Message, api_key=ConnectApiKey.CONNECT_GROUP_HEARTBEAT, versions="0", flexible="0+"
):
    """The worker's epoch, its assignment if it is news, and whether the worker is to compute the group's."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConnectGroupHeartbeatResponseAssignment | None = struct(
        ConnectGroupHeartbeatResponseAssignment, nullable="0+", default=None
    )
    should_compute_assignment: bool = boolean(tag=FIRST_TAG)


# ConnectGroupPrepareAssignment


class ConnectGroupPrepareAssignmentRequest(
    Message, api_key=ConnectApiKey.CONNECT_GROUP_PREPARE_ASSIGNMENT, versions="0", flexible="0+"
):
    """Asks for all that the assignor needs."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()


class ConnectGroupPrepareAssignmentResponseAssignor(Message):
    """What the worker declared for the chosen assignor."""

    version: int = int16()
    reason: int = int8()
    metadata: bytes = binary()


class ConnectGroupPrepareAssignmentResponseMember(Message):
    """One worker, with its part of the present target. It subscribes to no topics."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_ids: tuple[Uuid, ...] = array(uuid)
    assignor: ConnectGroupPrepareAssignmentResponseAssignor = struct(
        ConnectGroupPrepareAssignmentResponseAssignor
    )
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks)


class ConnectGroupPrepareAssignmentResponseTopicMetadata(Message):
    """One topic; there is none for Connect."""

    topic_id: Uuid = uuid()
    num_partitions: int = int32()


class ConnectGroupPrepareAssignmentResponse(
    Message, api_key=ConnectApiKey.CONNECT_GROUP_PREPARE_ASSIGNMENT, versions="0", flexible="0+"
):
    """The group at its present epoch. ``configured`` is what has to be assigned, as of ``config_offset``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_epoch: int = int32()
    assignor_name: str = string()
    members: tuple[ConnectGroupPrepareAssignmentResponseMember, ...] = array(
        ConnectGroupPrepareAssignmentResponseMember
    )
    topics: tuple[ConnectGroupPrepareAssignmentResponseTopicMetadata, ...] = array(
        ConnectGroupPrepareAssignmentResponseTopicMetadata
    )
    configured: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks, tag=FIRST_TAG)
    config_offset: int = int64(tag=FIRST_TAG + 1)


# ConnectGroupInstallAssignment


class ConnectGroupInstallAssignmentRequestMember(Message):
    """What one worker is to run, and the assignor's metadata for it."""

    member_id: str = string()
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = array(ConnectorsAndTasks)
    version: int = int32()
    metadata: bytes = binary()


class ConnectGroupInstallAssignmentRequest(
    Message, api_key=ConnectApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT, versions="0", flexible="0+"
):
    """The assignment of all workers; ``group_epoch`` is that of the answer that it was computed from.

    The KIP's page calls it ConsumerGroupInstallAssignment at this place, by mistake.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    group_epoch: int = int32()
    error: int = int8()
    members: tuple[ConnectGroupInstallAssignmentRequestMember, ...] = array(
        ConnectGroupInstallAssignmentRequestMember
    )


class ConnectGroupInstallAssignmentResponse(
    Message, api_key=ConnectApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT, versions="0", flexible="0+"
):
    """Whether the assignment is the group's target now."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
