"""An experiment: the messages of KIP-848's client-side assignors, which no broker of Kafka ever had.

Only the embedded coordinator serves them, and only when it is told to. Nothing here is in the registry of Kafka's APIs
(:mod:`protocol_codecs.registry`) or among its error codes, so the proxy neither offers nor relays it. The two new calls
have private keys far from Kafka's; what the KIP adds to ConsumerGroupHeartbeat and to records travels as tagged fields
with private numbers, which everybody else skips.
"""

from protocol_codecs.experimental.client_assignors import (
    ClientAssignorsHeartbeatRequest,
    ClientAssignorsHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupInstallAssignmentRequestTopicPartition,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    ConsumerGroupPrepareAssignmentResponseAssignor,
    ConsumerGroupPrepareAssignmentResponseMember,
    ConsumerGroupPrepareAssignmentResponseTopicMetadata,
    ConsumerGroupPrepareAssignmentResponseTopicPartition,
    HeartbeatAssignmentDetails,
    HeartbeatClientAssignor,
)
from protocol_codecs.experimental.records import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    CurrentAssignmentWithDetails,
    MemberClientAssignor,
    MemberMetadataWithClientAssignors,
    TargetAssignmentWithDetails,
)
from protocol_codecs.experimental.registry import (
    EXPERIMENTAL_APIS,
    REQUEST_HEADER_VERSION,
    RESPONSE_HEADER_VERSION,
    ExperimentalApi,
)
from protocol_codecs.experimental_keys import ExperimentalApiKey, ExperimentalErrorCode

__all__ = [
    "CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS",
    "EXPERIMENTAL_APIS",
    "REQUEST_HEADER_VERSION",
    "RESPONSE_HEADER_VERSION",
    "ClientAssignorsHeartbeatRequest",
    "ClientAssignorsHeartbeatResponse",
    "ConsumerGroupInstallAssignmentRequest",
    "ConsumerGroupInstallAssignmentRequestMember",
    "ConsumerGroupInstallAssignmentRequestTopicPartition",
    "ConsumerGroupInstallAssignmentResponse",
    "ConsumerGroupPrepareAssignmentRequest",
    "ConsumerGroupPrepareAssignmentResponse",
    "ConsumerGroupPrepareAssignmentResponseAssignor",
    "ConsumerGroupPrepareAssignmentResponseMember",
    "ConsumerGroupPrepareAssignmentResponseTopicMetadata",
    "ConsumerGroupPrepareAssignmentResponseTopicPartition",
    "CurrentAssignmentWithDetails",
    "ExperimentalApi",
    "ExperimentalApiKey",
    "ExperimentalErrorCode",
    "HeartbeatAssignmentDetails",
    "HeartbeatClientAssignor",
    "MemberClientAssignor",
    "MemberMetadataWithClientAssignors",
    "TargetAssignmentWithDetails",
]
