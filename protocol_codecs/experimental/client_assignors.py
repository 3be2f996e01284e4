"""ConsumerGroupHeartbeat with client-side assignors, ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment.

Fields and their order are those of KIP-848, in its later wording. The heartbeat's additions are tagged fields here.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.experimental_keys import FIRST_TAG, ExperimentalApiKey
from protocol_codecs.fields import array, binary, boolean, int8, int16, int32, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.uuids import Uuid

# ConsumerGroupHeartbeat


class HeartbeatClientAssignor(Message):
    """An assignor that the member can run, with the metadata that it wants others to see.

    A minimum version of -1 says that it can read what classic members declare.
    """

    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class ClientAssignorsHeartbeatRequest(
    ConsumerGroupHeartbeatRequest, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """A heartbeat that may declare client-side assignors; null if they have not changed, in the order of precedence."""

    client_assignors: tuple[HeartbeatClientAssignor, ...] | None = array(
        HeartbeatClientAssignor, nullable="0+", default=None, tag=FIRST_TAG
    )


class HeartbeatAssignmentDetails(Message):
    """What a client-side assignor said beside the partitions, and those that others have not given up yet."""

    error: int = int8()
    pending_topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions
    )
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class ClientAssignorsHeartbeatResponse(
    ConsumerGroupHeartbeatResponse, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """The answer to a member that declared client-side assignors."""

    should_compute_assignment: bool = boolean(tag=FIRST_TAG)
    assignment_details: HeartbeatAssignmentDetails | None = struct(
        HeartbeatAssignmentDetails, nullable="0+", default=None, tag=FIRST_TAG + 1
    )


# ConsumerGroupPrepareAssignment


class ConsumerGroupPrepareAssignmentRequest(
    Message,
    api_key=ExperimentalApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
    versions="0",
    flexible="0+",
):
    """Asks for everything that the assignor needs."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()


class ConsumerGroupPrepareAssignmentResponseAssignor(Message):
    """The member's declaration for the chosen assignor; version -1 for what a classic member declared."""

    reason: int = int8()
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class ConsumerGroupPrepareAssignmentResponseTopicPartition(Message):
    """Partitions of one topic in the member's present target."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ConsumerGroupPrepareAssignmentResponseMember(Message):
    """One member of the group."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_ids: tuple[Uuid, ...] = array(uuid)
    assignor: ConsumerGroupPrepareAssignmentResponseAssignor = struct(
        ConsumerGroupPrepareAssignmentResponseAssignor
    )
    topic_partitions: tuple[ConsumerGroupPrepareAssignmentResponseTopicPartition, ...] = array(
        ConsumerGroupPrepareAssignmentResponseTopicPartition
    )


class ConsumerGroupPrepareAssignmentResponseTopicMetadata(Message):
    """One topic that a member subscribes to."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()


class ConsumerGroupPrepareAssignmentResponse(
    Message,
    api_key=ExperimentalApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
    versions="0",
    flexible="0+",
):
    """The group at its present epoch, for which the assignment is computed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_epoch: int = int32()
    assignor_name: str = string()
    members: tuple[ConsumerGroupPrepareAssignmentResponseMember, ...] = array(
        ConsumerGroupPrepareAssignmentResponseMember
    )
    topics: tuple[ConsumerGroupPrepareAssignmentResponseTopicMetadata, ...] = array(
        ConsumerGroupPrepareAssignmentResponseTopicMetadata
    )


# ConsumerGroupInstallAssignment


class ConsumerGroupInstallAssignmentRequestTopicPartition(Message):
    """Partitions of one topic that the member is assigned."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ConsumerGroupInstallAssignmentRequestMember(Message):
    """What one member is assigned, and metadata for it in a version that its assignor reads."""

    member_id: str = string()
    partitions: tuple[ConsumerGroupInstallAssignmentRequestTopicPartition, ...] = array(
        ConsumerGroupInstallAssignmentRequestTopicPartition
    )
    metadata_version: int = int32()
    metadata_bytes: bytes = binary()


class ConsumerGroupInstallAssignmentRequest(
    Message,
    api_key=ExperimentalApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
    versions="0",
    flexible="0+",
):
    """The assignment of all members; ``group_epoch`` is that of the answer it was computed from."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    group_epoch: int = int32()
    error: int = int8()
    members: tuple[ConsumerGroupInstallAssignmentRequestMember, ...] = array(
        ConsumerGroupInstallAssignmentRequestMember
    )


class ConsumerGroupInstallAssignmentResponse(
    Message,
    api_key=ExperimentalApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
    versions="0",
    flexible="0+",
):
    """Whether the assignment is the group's target now."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
