"""All declared APIs: those of :mod:`protocol_codecs.registry`, and those that a serving proxy only relays.

The embedded coordinator answers the latter, and processes of their own send them: the journal's topic, lag, preflight.
"""

from protocol_codecs.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from protocol_codecs.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from protocol_codecs.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol_codecs.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol_codecs.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol_codecs.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from protocol_codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol_codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol_codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from protocol_codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from protocol_codecs.messages.fetch import FetchRequest, FetchResponse
from protocol_codecs.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol_codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol_codecs.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol_codecs.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol_codecs.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol_codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from protocol_codecs.messages.produce import ProduceRequest, ProduceResponse
from protocol_codecs.registry import APIS, Api, declared

ALL_APIS: dict[int, Api] = APIS | {
    api.key: api
    for api in (
        declared(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
        declared(CreateDelegationTokenRequest, CreateDelegationTokenResponse),
        declared(CreatePartitionsRequest, CreatePartitionsResponse),
        declared(CreateTopicsRequest, CreateTopicsResponse),
        declared(DeleteGroupsRequest, DeleteGroupsResponse),
        declared(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
        declared(DeleteTopicsRequest, DeleteTopicsResponse),
        declared(DescribeConfigsRequest, DescribeConfigsResponse),
        declared(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
        declared(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse),
        declared(FetchRequest, FetchResponse),
        declared(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        declared(InitProducerIdRequest, InitProducerIdResponse),
        declared(ListGroupsRequest, ListGroupsResponse),
        declared(ListOffsetsRequest, ListOffsetsResponse),
        declared(OffsetDeleteRequest, OffsetDeleteResponse),
        declared(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        declared(ProduceRequest, ProduceResponse),
    )
}
"""Every API whose body is declared, by key."""
