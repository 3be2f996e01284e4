"""Other addresses in responses, and nothing else changed."""

import pytest
from codec_values import values
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from protocol_codecs import ErrorCode, MalformedMessage, decode, encode
from protocol_codecs.address_rewrite import (
    Node,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata_brokers,
)
from protocol_codecs.all_messages import (
    Coordinator,
    DescribeClusterBroker,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def through_proxy(node_id: int, host: str, port: int) -> tuple[str, int] | None:
    """Node n becomes proxy:9100+n; node 2 has no place."""
    assert (host, port) == (f"kafka-{node_id}", 9092)
    return None if node_id == 2 else ("proxy", 9100 + node_id)


class TestMetadata:
    BROKERS = tuple(
        MetadataResponseBroker(node_id=n, host=f"kafka-{n}", port=9092, rack="r") for n in (1, 2, 3)
    )

    @pytest.mark.parametrize("version", list(MetadataResponse.__schema__.versions))
    def test_only_the_broker_list_changes(self, version: int):
        partition = MetadataResponsePartition(leader_id=2, replica_nodes=(1, 2, 3), isr_nodes=(2,))
        topic = MetadataResponseTopic(name="orders", partitions=(partition,))
        response = MetadataResponse(
            throttle_time_ms=5, brokers=self.BROKERS, cluster_id="c", controller_id=2, topics=(topic,)
        )
        body = encode(response, version)
        rack = "r" if version >= 1 else None

        rewritten = rewrite_metadata_brokers(body, version, through_proxy)

        assert rewritten.nodes == tuple(Node(n, f"kafka-{n}", 9092, rack) for n in (1, 2, 3))
        assert rewritten.cluster_id == ("c" if version >= 2 else None)
        assert decode(MetadataResponse, version, rewritten.body) == replace(
            decode(MetadataResponse, version, body),
            brokers=tuple(
                MetadataResponseBroker(node_id=n, host="proxy", port=9100 + n, rack=rack) for n in (1, 3)
            ),
        )

    @pytest.mark.parametrize("version", list(MetadataResponse.__schema__.versions))
    @settings(max_examples=15)
    @given(data=st.data())
    def test_it_does_what_decoding_everything_would_do(self, version: int, data: st.DataObject):
        response = data.draw(values(MetadataResponse, version))
        rewritten = rewrite_metadata_brokers(encode(response, version), version, lambda *_: ("h", 1))
        brokers = tuple(replace(broker, host="h", port=1) for broker in response.brokers)
        assert rewritten.body == encode(replace(response, brokers=brokers), version)

    def test_what_follows_the_list_is_copied_unread(self):
        start = encode(MetadataResponse(brokers=self.BROKERS[:1]), 9)
        end = len(start) - len(encode(MetadataResponse(), 9)) + 6
        assert rewrite_metadata_brokers(start[:end] + b"\xffwhatever", 9, through_proxy).body.endswith(
            b"\xffwhatever"
        )

    def test_any_buffer_is_read(self):
        body = encode(MetadataResponse(brokers=self.BROKERS), 12)
        expected = rewrite_metadata_brokers(body, 12, through_proxy)
        assert rewrite_metadata_brokers(memoryview(body), 12, through_proxy) == expected
        assert rewrite_metadata_brokers(bytearray(body), 12, through_proxy) == expected

    def test_a_malformed_list_is_named(self):
        body = encode(MetadataResponse(brokers=self.BROKERS), 12)
        with pytest.raises(MalformedMessage, match=r"malformed MetadataResponse v12: .*\.brokers\[2\]\.host"):
            rewrite_metadata_brokers(body[:50], 12, through_proxy)


class TestFindCoordinator:
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_the_one_coordinator_of_old_versions(self, version: int):
        body = encode(
            FindCoordinatorResponse(node_id=1, host="kafka-1", port=9092, error_message=None), max(version, 1)
        )
        if version == 0:
            body = encode(FindCoordinatorResponse(node_id=1, host="kafka-1", port=9092), version)
        rewritten = rewrite_find_coordinator(body, version, through_proxy)
        assert rewritten.nodes == (Node(1, "kafka-1", 9092),)
        response = decode(FindCoordinatorResponse, version, rewritten.body)
        assert (response.node_id, response.host, response.port) == (1, "proxy", 9101)

    @pytest.mark.parametrize("version", [0, 3])
    def test_a_coordinator_without_a_place_is_not_available(self, version: int):
        body = encode(FindCoordinatorResponse(node_id=2, host="kafka-2", port=9092), version)
        response = decode(
            FindCoordinatorResponse, version, rewrite_find_coordinator(body, version, through_proxy).body
        )
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (response.node_id, response.host, response.port) == (-1, "", -1)

    @pytest.mark.parametrize("version", [4, 5, 6])
    def test_each_of_many(self, version: int):
        found = Coordinator(key="a", node_id=1, host="kafka-1", port=9092)
        without_place = Coordinator(key="b", node_id=2, host="kafka-2", port=9092)
        failed = Coordinator(key="c", node_id=-1, host="", port=-1, error_code=15, error_message="none yet")
        body = encode(FindCoordinatorResponse(coordinators=(found, without_place, failed)), version)

        rewritten = rewrite_find_coordinator(body, version, through_proxy)

        assert rewritten.nodes == (Node(1, "kafka-1", 9092), Node(2, "kafka-2", 9092))
        assert decode(FindCoordinatorResponse, version, rewritten.body).coordinators == (
            Coordinator(key="a", node_id=1, host="proxy", port=9101),
            Coordinator(key="b", node_id=-1, host="", port=-1, error_code=15, error_message=None),
            failed,
        )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster(version: int):
    brokers = tuple(
        DescribeClusterBroker(broker_id=n, host=f"kafka-{n}", port=9092, rack="r") for n in (1, 2)
    )
    body = encode(DescribeClusterResponse(cluster_id="c", controller_id=2, brokers=brokers), version)

    rewritten = rewrite_describe_cluster(body, version, through_proxy)

    assert rewritten.nodes == (Node(1, "kafka-1", 9092, "r"), Node(2, "kafka-2", 9092, "r"))
    assert decode(DescribeClusterResponse, version, rewritten.body) == DescribeClusterResponse(
        cluster_id="c",
        controller_id=2,
        brokers=(DescribeClusterBroker(broker_id=1, host="proxy", port=9101, rack="r"),),
    )
