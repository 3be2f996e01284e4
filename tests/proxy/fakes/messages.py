"""Requests and responses that tests use often."""

import struct

from protocol_codecs import ApiKey
from protocol_codecs.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol_codecs.messages.metadata import MetadataRequest
from proxy.wire.varint import encode_varint
from tests.proxy.fakes import wire

BROKER_VERSIONS = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0),
}
"""The ranges of the broker in these tests."""


def api_versions_response(versions: dict[ApiKey, tuple[int, int]] = BROKER_VERSIONS) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api_key=int(key), min_version=low, max_version=high)
            for key, (low, high) in versions.items()
        )
    )


def ask_versions(correlation_id: int, version: int = 3) -> bytes:
    message = (
        ApiVersionsRequest(client_software_name="a", client_software_version="1") if version >= 3 else None
    )
    return wire.request(ApiKey.API_VERSIONS, version, correlation_id, message or ApiVersionsRequest())


def heartbeat_message(group_id: str = "g") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")


def heartbeat(correlation_id: int, group_id: str = "g", version: int = 3) -> bytes:
    return wire.request(ApiKey.HEARTBEAT, version, correlation_id, heartbeat_message(group_id))


def join_group(correlation_id: int, group_id: str = "g", version: int = 5) -> bytes:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    message = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )
    return wire.request(ApiKey.JOIN_GROUP, version, correlation_id, message)


def metadata(correlation_id: int, version: int = 9) -> bytes:
    return wire.request(ApiKey.METADATA, version, correlation_id, MetadataRequest(topics=()))


def plain(correlation_id: int, padding: int = 0) -> bytes:
    """A request that is relayed by its header: DeleteRecords without topics, with a client id for padding."""
    return wire.request(
        ApiKey.DELETE_RECORDS, 0, correlation_id, b"\0\0\0\0\0\0\0\x01", client_id="c" * padding
    )


def produce(
    correlation_id: int,
    acks: int,
    version: int = 9,
    transactional_id: str | None = None,
    *,
    size: int = 0,
    client_id: str | None = "p",
) -> bytes:
    """A Produce request as far as its acks, with ``size`` bytes behind."""
    if version >= 9:
        start = (
            b"\0"
            if transactional_id is None
            else bytes([len(transactional_id) + 1]) + transactional_id.encode()
        )
    elif version >= 3:
        text = transactional_id
        start = b"\xff\xff" if text is None else len(text).to_bytes(2, "big") + text.encode()
    else:
        start = b""
    body = start + acks.to_bytes(2, "big", signed=True) + (1000).to_bytes(4, "big") + bytes(size)
    return wire.request(ApiKey.PRODUCE, version, correlation_id, body, client_id)


def fetch_response(correlation_id: int, records: int) -> tuple[bytes, bytes, bytes]:
    """A Fetch response, version 16, with one partition: what stands before its records, they, and what follows."""
    partition = struct.pack(
        ">ihqqq", 0, 0, records, records, 0
    )  # index, error, high watermark, stable, start
    body = (
        struct.pack(">ihi", 0, 0, 0)
        + b"\x02"
        + bytes(16)
        + b"\x02"
        + partition
        + b"\x01"
        + struct.pack(">i", -1)
    )
    frame = wire.response(
        ApiKey.FETCH, 16, correlation_id, body + encode_varint(records + 1) + bytes(records + 3)
    )
    before = len(frame) - records - 3
    return frame[:before], frame[before:-3], frame[-3:]
