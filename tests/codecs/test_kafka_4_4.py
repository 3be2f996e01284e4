"""The versions that are new in Kafka 4.4, byte by byte as its schemas lay them out.

Neither kio nor a released Java client has them yet. When one does, test_against_kio.py or test_against_java.py
fails because its list of what is missing is no longer right, and these tests can go.
"""

import pytest

from protocol_codecs import Uuid, decode, encode
from protocol_codecs.message import Message
from protocol_codecs.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_ID = Uuid(bytes(range(16)))


@pytest.mark.parametrize(
    ("message", "version", "data"),
    [
        pytest.param(
            ApiVersionsRequest(
                client_software_name="app", client_software_version="1.2", cluster_id="cluster", node_id=3
            ),
            5,
            b"\x04app" + b"\x041.2" + b"\x08cluster" + b"\0\0\0\x03" + b"\0",
            id="ApiVersionsRequest names the cluster and the node that are meant",
        ),
        pytest.param(
            ApiVersionsRequest(client_software_name="app", client_software_version="1.2"),
            5,
            b"\x04app" + b"\x041.2" + b"\x00" + b"\xff\xff\xff\xff" + b"\0",
            id="ApiVersionsRequest names neither",
        ),
        pytest.param(
            TxnOffsetCommitRequest(
                transactional_id="tx",
                group_id="g",
                producer_id=1,
                producer_epoch=2,
                generation_id_or_member_epoch=3,
                member_id="m",
                group_instance_id=None,
                topics=(
                    TxnOffsetCommitRequestTopic(
                        topic_id=TOPIC_ID,
                        partitions=(
                            TxnOffsetCommitRequestPartition(
                                partition_index=4,
                                committed_offset=5,
                                committed_leader_epoch=6,
                                committed_metadata=None,
                            ),
                        ),
                    ),
                ),
            ),
            6,
            b"\x03tx" + b"\x02g" + bytes(7) + b"\x01" + b"\0\x02" + b"\0\0\0\x03" + b"\x02m" + b"\x00"
            b"\x02"
            + TOPIC_ID
            + b"\x02"
            + b"\0\0\0\x04"
            + bytes(7)
            + b"\x05"
            + b"\0\0\0\x06"
            + b"\x00"
            + b"\0\0\0",
            id="TxnOffsetCommitRequest has topic ids in place of names",
        ),
        pytest.param(
            TxnOffsetCommitResponse(
                throttle_time_ms=7,
                topics=(
                    TxnOffsetCommitResponseTopic(
                        topic_id=TOPIC_ID,
                        partitions=(TxnOffsetCommitResponsePartition(partition_index=4, error_code=100),),
                    ),
                ),
            ),
            6,
            b"\0\0\0\x07" + b"\x02" + TOPIC_ID + b"\x02" + b"\0\0\0\x04" + b"\0\x64" + b"\0\0\0",
            id="TxnOffsetCommitResponse has topic ids in place of names",
        ),
    ],
)
def test_layout(message: Message, version: int, data: bytes):
    assert encode(message, version) == data
    assert decode(type(message), version, data) == message


def test_names_are_dropped_where_ids_are_meant():
    topic = TxnOffsetCommitRequestTopic(name="orders", topic_id=TOPIC_ID)
    decoded = decode(TxnOffsetCommitRequest, 6, encode(TxnOffsetCommitRequest(topics=(topic,)), 6))
    assert decoded.topics == (TxnOffsetCommitRequestTopic(topic_id=TOPIC_ID),)


def test_the_response_of_api_versions_is_what_it_was_in_v4():
    response = ApiVersionsResponse(
        error_code=129,
        api_keys=(ApiVersion(api_key=18, min_version=0, max_version=5),),
        supported_features=(SupportedFeatureKey(name="group.version", min_version=0, max_version=1),),
        finalized_features_epoch=9,
    )
    assert encode(response, 5) == encode(response, 4)
