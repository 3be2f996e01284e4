"""From which version on and up to which one clients are offered an API at most: those whose wire format was read for
this proxy; and which APIs are never offered.

A version is in the table when somebody has looked through its request and response for three things: broker
addresses, group membership, and anything else that is only true on the broker's own connection. A newer
version of a broker is capped, and an API that is not here is hidden, because both gained addresses before and
will again (Fetch v16 and Produce v10 did, by KIP-951; ``proxy.wire.endpoint_rewriter`` replaces them). Reviewed
against Kafka 4.3.1; share and streams groups (the endpoints that streams groups name are the application's own),
ApiVersions v5 (see :meth:`proxy.session.negotiation.Negotiation.for_any_node`), TxnOffsetCommit v6 and DeleteGroups v3
against 4.4.0.

APIs between brokers and controllers are not here.
"""

from protocol_codecs import ApiKey
from protocol_codecs.connect_group_keys import ConnectApiKey
from protocol_codecs.experimental_keys import ExperimentalApiKey

NEWEST_REVIEWED: dict[int, int] = {
    ApiKey.PRODUCE: 13,
    ApiKey.FETCH: 18,
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.METADATA: 13,
    ApiKey.OFFSET_COMMIT: 10,
    ApiKey.OFFSET_FETCH: 10,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.API_VERSIONS: 5,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 6,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.END_TXN: 5,
    ApiKey.WRITE_TXN_MARKERS: 2,
    ApiKey.TXN_OFFSET_COMMIT: 6,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 3,
    ApiKey.DELETE_GROUPS: 3,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.UPDATE_FEATURES: 2,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 2,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: 0,
    ApiKey.PUSH_TELEMETRY: 0,
    ApiKey.LIST_CONFIG_RESOURCES: 1,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 1,
    ApiKey.STREAMS_GROUP_DESCRIBE: 1,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: 0,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.SHARE_ACKNOWLEDGE: 2,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 0,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: 0,
}
"""The newest version of each API that is passed on."""

OLDEST_REVIEWED: dict[int, int] = {
    # v0 was a preview in Kafka 4.0, with other fields, and is gone since 4.1.
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}
"""The oldest version that is passed on, where that is not 0."""

NEVER_OFFERED: frozenset[int] = frozenset(
    {
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        *ExperimentalApiKey,
        *ConnectApiKey,
    }
)
"""APIs that nobody is offered, whatever the configuration says: those with which brokers keep the state of share
groups, and those of the embedded broker's experiments, which no Kafka has."""

AUTHENTICATION_APIS: frozenset[int] = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
"""APIs that a client is not offered for which the proxy has authenticated: its certificate decides who it is, and
brokers answer the last four with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a connection that a token authenticated."""

_SHARE_OFFSETS: dict[int, frozenset[int]] = dict.fromkeys(
    (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
    frozenset(
        {
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
        }
    ),
)

API_NEEDS: dict[int, frozenset[int]] = _SHARE_OFFSETS | {
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: frozenset({ApiKey.STREAMS_GROUP_HEARTBEAT}),
}
"""APIs that are only offered together with these others: a tool that sees one of the first three counts on share
groups, and the last is how a member of a streams group answers a heartbeat's question."""

VERSION_NEEDS: dict[tuple[int, int], int] = {
    # A broker asks in its answer for a description of the topology, which goes by an API of its own (KIP-1331).
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1): ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
"""(API, version) -> another API: from that version on it is only offered together with that other API."""

FEATURE_NEEDS: dict[str, tuple[tuple[int, int, int], ...]] = {
    # A client decides on transactions V2 from the feature alone and then needs Produce v12 (KIP-890).
    "transaction.version": (
        (2, ApiKey.PRODUCE, 12),
        (2, ApiKey.TXN_OFFSET_COMMIT, 5),
        (2, ApiKey.END_TXN, 5),
    ),
    "share.version": ((1, ApiKey.SHARE_GROUP_HEARTBEAT, 1), (1, ApiKey.SHARE_FETCH, 1)),
    "streams.version": ((1, ApiKey.STREAMS_GROUP_HEARTBEAT, 0),),
    "group.version": ((1, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),),
}
"""Finalized feature -> (level, API, version): from that level on clients rely on that version of the API."""
