"""Errors are counted wherever a response has them."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol_codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from proxy.metrics.registry import Metrics
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.request_metrics import RequestMetrics, error_codes

STALE = int(ErrorCode.STALE_MEMBER_EPOCH)


def a_commit(*codes: int) -> OffsetCommitResponse:
    partitions = tuple(
        OffsetCommitResponsePartition(partition_index=n, error_code=c) for n, c in enumerate(codes)
    )
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=partitions),))


@pytest.mark.parametrize(
    ("api_key", "message", "codes"),
    [
        (ApiKey.HEARTBEAT, HeartbeatResponse(), set()),
        (ApiKey.HEARTBEAT, HeartbeatResponse(error_code=27), {27}),
        (ApiKey.OFFSET_COMMIT, a_commit(0, STALE, STALE, 14), {STALE, 14}),
        (
            ApiKey.LEAVE_GROUP,
            LeaveGroupResponse(error_code=15, members=(MemberResponse(error_code=25),)),
            {15, 25},
        ),
    ],
)
def test_the_errors_of_a_response(api_key, message, codes):
    assert error_codes(api_key, message) == codes


def test_errors_are_counted_by_api_and_name():
    metrics = Metrics()
    request_metrics = RequestMetrics(metrics)
    entry = InFlightRequest(Origin.LOCAL, int(ApiKey.OFFSET_COMMIT), 8, 1, 0.0)
    request_metrics.answered(entry, a_commit(STALE, 0), 0.001)
    request_metrics.call_result(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatResponse(error_code=110)
    )
    value = metrics.registry.get_sample_value
    labels = {"api_key": "OFFSET_COMMIT", "error_code": "STALE_MEMBER_EPOCH"}
    assert value("epochgate_answer_errors_total", labels) == 1
    labels = {"api_key": "CONSUMER_GROUP_HEARTBEAT", "error_code": "FENCED_MEMBER_EPOCH"}
    assert value("epochgate_upstream_call_errors_total", labels) == 1


def test_versions_that_a_client_makes_up_share_one_series():
    metrics = Metrics()
    request_metrics = RequestMetrics(metrics)
    for version in range(5, 3000):
        request_metrics.request(ApiKey.API_VERSIONS, version, 10, decoded=True)
    (family,) = (
        one for one in metrics.without_groups.collect() if one.name == "epochgate_client_to_proxy_request"
    )
    told = {sample.labels["api_version"]: sample.value for sample in family.samples}
    assert len(told) < 100
    assert (told["5"], told["UNKNOWN"]) == (1, 2900)
