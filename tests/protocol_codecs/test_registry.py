"""Keys, error codes and header versions, held against kio's, and where kio has none against Kafka's own history."""

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.registry import FIRST_FLEXIBLE_VERSION, request_header_version, response_header_version

KIO_VERSIONS = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]


@pytest.mark.parametrize(("key", "version"), KIO_VERSIONS)
def test_headers_are_those_of_kio(key: int, version: int):
    assert (
        request_header_version(key, version)
        == load_request_schema(key, version).__header_schema__.__version__
    )
    assert (
        response_header_version(key, version)
        == load_response_schema(key, version).__header_schema__.__version__
    )


def test_headers_of_apis_that_kio_does_not_have():
    assert {ApiKey(key).name for key in set(FIRST_FLEXIBLE_VERSION) - set(api_key_map)} == {
        "LEADER_AND_ISR",  # gone from Kafka 4
        "STOP_REPLICA",
        "UPDATE_METADATA",
        "CONTROLLED_SHUTDOWN",
        "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE",  # new in Kafka 4.4
        "UNREGISTER_CONTROLLER",
    }
    assert [request_header_version(ApiKey.CONTROLLED_SHUTDOWN, version) for version in range(4)] == [
        0,
        1,
        1,
        2,
    ]
    assert [response_header_version(ApiKey.CONTROLLED_SHUTDOWN, version) for version in range(4)] == [
        0,
        0,
        0,
        1,
    ]
    assert [request_header_version(ApiKey.LEADER_AND_ISR, version) for version in (3, 4)] == [1, 2]
    assert [request_header_version(ApiKey.STOP_REPLICA, version) for version in (1, 2)] == [1, 2]
    assert [request_header_version(ApiKey.UPDATE_METADATA, version) for version in (5, 6)] == [1, 2]
    assert request_header_version(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0) == 2
    assert request_header_version(ApiKey.UNREGISTER_CONTROLLER, 0) == 2


def test_the_response_of_api_versions_never_has_a_flexible_header():
    assert {response_header_version(ApiKey.API_VERSIONS, version) for version in range(6)} == {0}
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2


def test_every_key_has_a_header():
    assert set(FIRST_FLEXIBLE_VERSION) == set(ApiKey)


def test_an_unknown_key_is_no_silent_default():
    with pytest.raises(KeyError):
        request_header_version(1000, 0)
    with pytest.raises(KeyError):
        response_header_version(1000, 0)


def test_keys_are_named_as_in_kio():
    # Two APIs were renamed since they were introduced; the key is what counts.
    assert {ApiKey(key).name.lower() for key in api_key_map} == set(api_key_map.values())


def test_request_and_response_are_declared_alike():
    for key, api in ALL_APIS.items():
        request, response = api.request.__schema__, api.response.__schema__
        assert (request.api_key, response.api_key) == (key, key)
        assert request.versions == response.versions == api.versions
        assert request.flexible == response.flexible == api.flexible
        flexible = [version for version in api.versions if version in api.flexible]
        assert flexible == [version for version in api.versions if version >= FIRST_FLEXIBLE_VERSION[key]]
        assert (request.name, response.name) == (f"{_title(api.key)}Request", f"{_title(api.key)}Response")


def _title(key: ApiKey) -> str:
    return key.name.title().replace("_", "")


def test_the_apis_that_somebody_here_reads_are_declared():
    assert {(api.key.name, str(api.versions), str(api.flexible)) for api in ALL_APIS.values()} == {
        ("PRODUCE", "3-13", "9+"),
        ("FETCH", "4-18", "12+"),
        ("LIST_OFFSETS", "1-11", "6+"),
        ("METADATA", "0-13", "9+"),
        ("OFFSET_COMMIT", "0-10", "8+"),
        ("OFFSET_FETCH", "0-10", "6+"),
        ("FIND_COORDINATOR", "0-6", "3+"),
        ("JOIN_GROUP", "0-9", "6+"),
        ("HEARTBEAT", "0-4", "4+"),
        ("LEAVE_GROUP", "0-5", "4+"),
        ("SYNC_GROUP", "0-5", "4+"),
        ("DESCRIBE_GROUPS", "0-6", "5+"),
        ("LIST_GROUPS", "0-5", "3+"),
        ("SASL_HANDSHAKE", "0-1", "none"),
        ("API_VERSIONS", "0-5", "3+"),
        ("CREATE_TOPICS", "2-7", "5+"),
        ("DELETE_TOPICS", "1-6", "4+"),
        ("INIT_PRODUCER_ID", "0-6", "2+"),
        ("OFFSET_FOR_LEADER_EPOCH", "2-4", "4+"),
        ("TXN_OFFSET_COMMIT", "0-6", "3+"),
        ("DESCRIBE_CONFIGS", "1-4", "4+"),
        ("SASL_AUTHENTICATE", "0-2", "2+"),
        ("CREATE_PARTITIONS", "0-3", "2+"),
        ("CREATE_DELEGATION_TOKEN", "1-3", "2+"),
        ("EXPIRE_DELEGATION_TOKEN", "1-2", "2+"),
        ("DELETE_GROUPS", "0-3", "2+"),
        ("INCREMENTAL_ALTER_CONFIGS", "0-1", "1+"),
        ("OFFSET_DELETE", "0", "none"),
        ("DESCRIBE_CLUSTER", "0-2", "0+"),
        ("CONSUMER_GROUP_HEARTBEAT", "0-1", "0+"),
        ("CONSUMER_GROUP_DESCRIBE", "0-1", "0+"),
        ("SHARE_GROUP_HEARTBEAT", "1", "0+"),
        ("SHARE_FETCH", "1-2", "0+"),
        ("SHARE_GROUP_DESCRIBE", "1", "0+"),
        ("SHARE_ACKNOWLEDGE", "1-2", "0+"),
        ("STREAMS_GROUP_HEARTBEAT", "0-1", "0+"),
        ("DESCRIBE_SHARE_GROUP_OFFSETS", "0-1", "0+"),
        ("ALTER_SHARE_GROUP_OFFSETS", "0", "0+"),
        ("DELETE_SHARE_GROUP_OFFSETS", "0", "0+"),
    }


def test_error_codes_are_those_of_kio_and_of_kafka_4_4():
    ours = {code.name: int(code) for code in ErrorCode}
    theirs = {code.name.upper(): int(code) for code in KioErrorCode}
    assert ours == theirs | {
        "GROUP_DELETION_FAILED": 134,
        "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": 135,
        "CONTROLLER_ID_NOT_REGISTERED": 136,
    }
