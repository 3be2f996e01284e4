"""An experiment: the messages and records of KIP-848's groups of Connect workers, which no broker of Kafka ever had.

Only the embedded broker serves them, and only when it is told to. Nothing here is in the registry of Kafka's APIs
(:mod:`protocol_codecs.registry`) or among its error codes, so the proxy neither offers nor relays it. The calls have
private keys far from Kafka's, and the records are for a log of their own: the KIP gives them the numbers that consumer
groups have in ``__consumer_offsets``.
"""

from protocol_codecs.connect_group_keys import ConnectApiKey, ConnectErrorCode
from protocol_codecs.connect_groups.messages import (
    ConnectAssignor,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupHeartbeatResponseAssignment,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentRequestMember,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    ConnectGroupPrepareAssignmentResponseAssignor,
    ConnectGroupPrepareAssignmentResponseMember,
    ConnectGroupPrepareAssignmentResponseTopicMetadata,
    ConnectorsAndTasks,
    ConnectorTaskId,
)
from protocol_codecs.connect_groups.records import (
    CONNECT_GROUPS,
    ConnectRecordType,
    ConnectWorkerGroupConnectorsTasksMetadataKey,
    ConnectWorkerGroupConnectorsTasksMetadataValue,
    ConnectWorkerGroupCurrentMemberAssignmentKey,
    ConnectWorkerGroupCurrentMemberAssignmentValue,
    ConnectWorkerGroupMemberMetadataKey,
    ConnectWorkerGroupMemberMetadataValue,
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupMetadataValue,
    ConnectWorkerGroupTargetAssignmentKey,
    ConnectWorkerGroupTargetAssignmentMember,
    ConnectWorkerGroupTargetAssignmentValue,
    MemberAssignor,
    MemberClassicProtocol,
)
from protocol_codecs.connect_groups.registry import (
    CONNECT_APIS,
    REQUEST_HEADER_VERSION,
    RESPONSE_HEADER_VERSION,
    VERSION,
    ConnectApi,
)

__all__ = [
    "CONNECT_APIS",
    "CONNECT_GROUPS",
    "REQUEST_HEADER_VERSION",
    "RESPONSE_HEADER_VERSION",
    "VERSION",
    "ConnectApi",
    "ConnectApiKey",
    "ConnectAssignor",
    "ConnectErrorCode",
    "ConnectGroupHeartbeatRequest",
    "ConnectGroupHeartbeatResponse",
    "ConnectGroupHeartbeatResponseAssignment",
    "ConnectGroupInstallAssignmentRequest",
    "ConnectGroupInstallAssignmentRequestMember",
    "ConnectGroupInstallAssignmentResponse",
    "ConnectGroupPrepareAssignmentRequest",
    "ConnectGroupPrepareAssignmentResponse",
    "ConnectGroupPrepareAssignmentResponseAssignor",
    "ConnectGroupPrepareAssignmentResponseMember",
    "ConnectGroupPrepareAssignmentResponseTopicMetadata",
    "ConnectRecordType",
    "ConnectWorkerGroupConnectorsTasksMetadataKey",
    "ConnectWorkerGroupConnectorsTasksMetadataValue",
    "ConnectWorkerGroupCurrentMemberAssignmentKey",
    "ConnectWorkerGroupCurrentMemberAssignmentValue",
    "ConnectWorkerGroupMemberMetadataKey",
    "ConnectWorkerGroupMemberMetadataValue",
    "ConnectWorkerGroupMetadataKey",
    "ConnectWorkerGroupMetadataValue",
    "ConnectWorkerGroupTargetAssignmentKey",
    "ConnectWorkerGroupTargetAssignmentMember",
    "ConnectWorkerGroupTargetAssignmentValue",
    "ConnectorTaskId",
    "ConnectorsAndTasks",
    "MemberAssignor",
    "MemberClassicProtocol",
]
