"""Negotiated versions: what a client is told that it may use."""

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.experimental_keys import ExperimentalApiKey
from protocol_codecs.messages.api_versions import (
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol_codecs.registry import APIS, FIRST_FLEXIBLE_VERSION
from proxy.wire.api_versions import ApiVersionsNegotiator
from proxy.wire.framing import response_of_body
from proxy.wire.supported_versions import FEATURE_NEEDS, NEWEST_REVIEWED
from proxy.wire.translated_apis import TRANSLATED
from tests.proxy.fakes import messages, wire


def offered(
    response: ApiVersionsResponse, version: int = 3, *, allow_unknown_apis: bool = False
) -> ApiVersionsResponse:
    negotiator = ApiVersionsNegotiator(allow_unknown_apis=allow_unknown_apis)
    negotiated = negotiator.negotiate(version, wire.response(ApiKey.API_VERSIONS, version, 1, response))
    return wire.body_of(
        response_of_body(ApiKey.API_VERSIONS, version, 1, negotiated.body), ApiKey.API_VERSIONS, version
    )


def ranges(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_ranges_of_the_broker_within_ours_are_offered_as_they_are(version):
    broker = {
        api_key: versions
        for api_key, versions in messages.BROKER_VERSIONS.items()
        if api_key not in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
    }
    assert ranges(offered(messages.api_versions_response(broker), version)) == broker


def test_newer_versions_are_capped_and_older_ones_stay_the_brokers():
    broker = {ApiKey.PRODUCE: (0, 99), ApiKey.FETCH: (4, 99), ApiKey.METADATA: (3, 5)}
    assert ranges(offered(messages.api_versions_response(broker))) == {
        ApiKey.PRODUCE: (0, NEWEST_REVIEWED[ApiKey.PRODUCE]),
        ApiKey.FETCH: (4, NEWEST_REVIEWED[ApiKey.FETCH]),
        ApiKey.METADATA: (3, 5),
    }


def test_an_api_of_which_every_version_is_newer_is_hidden():
    broker = {ApiKey.LIST_GROUPS: (90, 99), ApiKey.METADATA: (0, 1)}
    assert ranges(offered(messages.api_versions_response(broker))) == {ApiKey.METADATA: (0, 1)}


@pytest.mark.parametrize("api_key", [ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH])
def test_a_group_call_is_offered_from_v0_on_whatever_the_broker_lacks(api_key):
    broker = {api_key: (2, 9)}
    assert ranges(offered(messages.api_versions_response(broker))) == {api_key: (0, 9)}


@pytest.mark.parametrize(
    ("api_key", "broker", "client"),
    [
        (ApiKey.JOIN_GROUP, (9, 12), (0, 9)),
        (ApiKey.JOIN_GROUP, (10, 12), None),
        (ApiKey.OFFSET_COMMIT, (9, 10), (0, 10)),
        (ApiKey.OFFSET_COMMIT, (10, 10), (10, 10)),
        (ApiKey.OFFSET_FETCH, (7, 10), (0, 10)),
        (ApiKey.OFFSET_FETCH, (8, 10), (8, 10)),
    ],
)
def test_a_group_call_is_not_offered_in_versions_that_can_not_be_raised_so_far(api_key, broker, client):
    assert ranges(offered(messages.api_versions_response({api_key: broker}))).get(api_key) == client


def test_an_unknown_api_is_hidden_unless_the_configuration_allows_it():
    broker = {1000: (0, 7)}
    response = messages.api_versions_response(broker)
    assert ranges(offered(response)) == {}
    assert ranges(offered(response, allow_unknown_apis=True)) == broker


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
def test_experiments_are_never_offered_whatever_a_broker_says(allow_unknown_apis):
    broker = dict.fromkeys(ExperimentalApiKey, (0, 0))
    response = messages.api_versions_response({**broker, ApiKey.METADATA: (0, 9)})
    assert ranges(offered(response, allow_unknown_apis=allow_unknown_apis)) == {ApiKey.METADATA: (0, 9)}


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
def test_what_brokers_say_to_each_other_about_share_groups_is_never_offered(allow_unknown_apis):
    broker = dict.fromkeys(range(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.STREAMS_GROUP_HEARTBEAT), (0, 1))
    response = messages.api_versions_response({**broker, ApiKey.METADATA: (0, 9)})
    assert ranges(offered(response, allow_unknown_apis=allow_unknown_apis)) == {ApiKey.METADATA: (0, 9)}


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
@pytest.mark.parametrize(("broker", "client"), [((1, 1), {(1, 1)}), ((0, 2), {(1, 2)}), ((0, 0), set())])
def test_share_groups_are_offered_from_v1_on(broker, client, allow_unknown_apis):
    """v0 of Kafka 4.0 is another protocol."""
    for api_key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
        response = messages.api_versions_response({api_key: broker})
        assert set(ranges(offered(response, allow_unknown_apis=allow_unknown_apis)).values()) == client


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
def test_offsets_of_share_groups_are_offered_only_together_with_share_groups(allow_unknown_apis):
    offsets = {ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1), ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0)}
    groups = {
        ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
        ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
        ApiKey.SHARE_FETCH: (1, 2),
        ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    }
    for broker in (groups | offsets, groups):
        response = messages.api_versions_response(broker)
        assert ranges(offered(response, allow_unknown_apis=allow_unknown_apis)) == broker
    preview = dict.fromkeys(groups, (0, 0))
    response = messages.api_versions_response(preview | offsets)
    assert ranges(offered(response, allow_unknown_apis=allow_unknown_apis)) == {}


_TOPOLOGY = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE


@pytest.mark.parametrize(
    ("broker", "client"),
    [
        ({ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1), _TOPOLOGY: (0, 0)}, None),
        ({ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0)}, None),
        ({ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1)}, {ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0)}),
        ({ApiKey.STREAMS_GROUP_HEARTBEAT: (1, 1)}, {}),
        ({_TOPOLOGY: (0, 0)}, {}),
    ],
)
def test_a_broker_asks_for_a_topology_only_if_it_can_be_sent(broker, client):
    """Version 1 of the heartbeat and the API that answers its question are offered both or neither."""
    response = messages.api_versions_response(broker)
    assert ranges(offered(response)) == (broker if client is None else client)


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
def test_a_client_that_never_asks_may_use_what_would_be_offered(allow_unknown_apis):
    ranges_of_all = ApiVersionsNegotiator(allow_unknown_apis=allow_unknown_apis).default_ranges
    assert ranges_of_all[ApiKey.SHARE_FETCH] == (1, 2)
    assert ranges_of_all[ApiKey.METADATA] == (0, 13)
    assert ApiKey.WRITE_SHARE_GROUP_STATE not in ranges_of_all


def test_inter_broker_apis_are_not_offered():
    hidden = {
        ApiKey.LEADER_AND_ISR,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.VOTE,
        ApiKey.ENVELOPE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
    }
    assert not hidden & NEWEST_REVIEWED.keys()


def features(*levels: tuple[str, int], produce: int = 13) -> dict[str, int]:
    """The finalized features that a client is told, where the broker has these and Produce up to a version."""
    response = ApiVersionsResponse(
        api_keys=messages.api_versions_response(
            {
                **messages.BROKER_VERSIONS,
                ApiKey.PRODUCE: (0, produce),
                ApiKey.END_TXN: (0, 5),
                ApiKey.TXN_OFFSET_COMMIT: (0, 5),
            }
        ).api_keys,
        supported_features=(SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2),),
        finalized_features_epoch=7,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=1)
            for name, level in levels
        ),
    )
    answer = offered(response)
    assert answer.finalized_features_epoch == 7
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


def test_features_stay_where_all_that_they_need_is_offered():
    kept = {"transaction.version": 2, "metadata.version": 27, "group.version": 1}
    assert features(*kept.items()) == kept


def test_a_feature_is_lowered_to_what_the_offered_versions_can_do():
    """A client decides on transactions V2 from the feature alone, and needs Produce v12 for it."""
    assert features(("transaction.version", 2), produce=11) == {"transaction.version": 1}


def test_a_feature_whose_apis_are_hidden_is_hidden():
    assert features(("share.version", 1), ("transaction.version", 1)) == {"transaction.version": 1}


def test_answers_are_remembered():
    negotiator = ApiVersionsNegotiator(allow_unknown_apis=False)
    frames = [wire.response(ApiKey.API_VERSIONS, 3, n, messages.api_versions_response()) for n in (1, 2)]
    assert negotiator.negotiate(3, frames[0]) is negotiator.negotiate(3, frames[1])


def test_the_table_of_reviewed_apis_is_consistent():
    for api_key, newest in NEWEST_REVIEWED.items():
        assert api_key in FIRST_FLEXIBLE_VERSION
        if api_key in APIS and api_key != ApiKey.API_VERSIONS:
            assert newest <= APIS[api_key].versions.high
    for api_key in TRANSLATED:
        assert 0 in APIS[api_key].versions or APIS[api_key].versions.low == 0
    for needs in FEATURE_NEEDS.values():
        assert all(level >= 1 for level, _api_key, _version in needs)
