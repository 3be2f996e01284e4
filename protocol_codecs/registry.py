"""Maps API keys to declared messages, and every API version to its header version.

Bodies are declared here for the APIs that a serving proxy reads or writes, in :mod:`protocol_codecs.all_apis` for those
that only others do; headers are known for all APIs, so that everything else can be relayed.
"""

import msgspec

from protocol_codecs.api_key import ApiKey
from protocol_codecs.message import Message
from protocol_codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol_codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse
from protocol_codecs.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol_codecs.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from protocol_codecs.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from protocol_codecs.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from protocol_codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol_codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol_codecs.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol_codecs.version_range import VersionRange

_NEVER = 0x7FFF

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_API_VERSIONS = ApiKey.API_VERSIONS
_CONTROLLED_SHUTDOWN = ApiKey.CONTROLLED_SHUTDOWN


class Api(msgspec.Struct, frozen=True):
    """One declared API: its request and response class, and all versions that ever existed."""

    key: ApiKey
    versions: VersionRange
    flexible: VersionRange
    request: type[Message]
    response: type[Message]


def declared(request: type[Message], response: type[Message]) -> Api:
    """Return the API that a request declares. Raises TypeError if it declares none."""
    schema = request.__schema__
    if schema.api_key is None:
        raise TypeError(f"{schema.name} declares no API key")
    return Api(ApiKey(schema.api_key), schema.versions, schema.flexible, request, response)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        declared(MetadataRequest, MetadataResponse),
        declared(OffsetCommitRequest, OffsetCommitResponse),
        declared(OffsetFetchRequest, OffsetFetchResponse),
        declared(FindCoordinatorRequest, FindCoordinatorResponse),
        declared(JoinGroupRequest, JoinGroupResponse),
        declared(HeartbeatRequest, HeartbeatResponse),
        declared(LeaveGroupRequest, LeaveGroupResponse),
        declared(SyncGroupRequest, SyncGroupResponse),
        declared(DescribeGroupsRequest, DescribeGroupsResponse),
        declared(SaslHandshakeRequest, SaslHandshakeResponse),
        declared(ApiVersionsRequest, ApiVersionsResponse),
        declared(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        declared(SaslAuthenticateRequest, SaslAuthenticateResponse),
        declared(DescribeClusterRequest, DescribeClusterResponse),
        declared(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        declared(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        declared(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
        declared(ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        declared(ShareFetchRequest, ShareFetchResponse),
        declared(ShareAcknowledgeRequest, ShareAcknowledgeResponse),
        declared(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse),
    )
}
"""The APIs whose bodies a serving proxy reads or writes, by key."""

FIRST_FLEXIBLE_VERSION: dict[int, int] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.LEADER_AND_ISR: 4,
    ApiKey.STOP_REPLICA: 2,
    ApiKey.UPDATE_METADATA: 6,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: _NEVER,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.CREATE_DELEGATION_TOKEN: 2,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: _NEVER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.VOTE: 0,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.DESCRIBE_QUORUM: 0,
    ApiKey.ALTER_PARTITION: 0,
    ApiKey.UPDATE_FEATURES: 0,
    ApiKey.ENVELOPE: 0,
    ApiKey.FETCH_SNAPSHOT: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.BROKER_REGISTRATION: 0,
    ApiKey.BROKER_HEARTBEAT: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 0,
    ApiKey.ALLOCATE_PRODUCER_IDS: 0,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 0,
    ApiKey.CONTROLLER_REGISTRATION: 0,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 0,
    ApiKey.PUSH_TELEMETRY: 0,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: 0,
    ApiKey.LIST_CONFIG_RESOURCES: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.SHARE_GROUP_HEARTBEAT: 0,
    ApiKey.SHARE_GROUP_DESCRIBE: 0,
    ApiKey.SHARE_FETCH: 0,
    ApiKey.SHARE_ACKNOWLEDGE: 0,
    ApiKey.ADD_RAFT_VOTER: 0,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.UPDATE_RAFT_VOTER: 0,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE: 0,
    ApiKey.WRITE_SHARE_GROUP_STATE: 0,
    ApiKey.DELETE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 0,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 0,
    ApiKey.STREAMS_GROUP_DESCRIBE: 0,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 0,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 0,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: 0,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: 0,
    ApiKey.UNREGISTER_CONTROLLER: 0,
}
"""For every API, the first version whose body is flexible and which travels with flexible headers."""


def request_header_version(api_key: int, version: int) -> int:
    """Return the request header version of this API and version. Raises KeyError for an unknown API."""
    if version >= FIRST_FLEXIBLE_VERSION[api_key]:
        return 2
    if version == 0 and api_key == _CONTROLLED_SHUTDOWN:
        return 0
    return 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the response header version of this API and version. Raises KeyError for an unknown API.

    The response of ApiVersions always has v0, since the client does not know yet which versions the broker supports.
    """
    if api_key == _API_VERSIONS:
        return 0
    return 1 if version >= FIRST_FLEXIBLE_VERSION[api_key] else 0
