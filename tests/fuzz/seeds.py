"""Valid inputs to begin with: a fuzzer that starts from nothing spends its time on finding headers."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from protocol_codecs import ApiKey, ErrorCode, Message, encode
from protocol_codecs import all_messages as messages
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.fuzz import broker_answers, foreign_records, lines_and_frames
from tests.fuzz.targets import DECLARED
from tests.fuzz.two_connections import ANSWERS
from tests.protocol_codecs.connect_vectors import ASSIGNMENTS, METADATA

sys.path[:0] = [str(Path(__file__).parents[1] / "protocol_codecs"), str(Path(__file__).parents[1] / "proxy")]
from codec_values import full  # noqa: E402 - the tests of that folder are no package

from tests.proxy.fakes import messages as said  # noqa: E402
from tests.proxy.fakes import share, wire  # noqa: E402


def _embedded() -> Iterator[bytes]:
    """What members of either kind of classic group embed, in every version."""
    for embedded in (
        messages.ConsumerProtocolSubscription,
        messages.ConsumerProtocolAssignment,
        messages.ConnectProtocolMetadata,
        messages.ConnectProtocolAssignment,
    ):
        for version in embedded.__schema__.versions:
            yield version.to_bytes(2) + encode(full(embedded, version), version)
    yield from METADATA.values()
    yield from ASSIGNMENTS.values()


_BY_THEMSELVES: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "broker_answers": broker_answers.histories,
    "member_log": foreign_records.records,
    "snapshots": foreign_records.snapshots,
    "hook_answers": foreign_records.answers,
    "journal_lines": lines_and_frames.lines,
    "child_frames": lines_and_frames.frames,
    "embedded": _embedded,
}


def seeds(target: str) -> Iterator[bytes]:
    """Inputs for a target; none for some."""
    if target in _BY_THEMSELVES:
        yield from _BY_THEMSELVES[target]()
    elif target == "messages":
        for number, (message_type, version) in enumerate(DECLARED):
            yield number.to_bytes(2) + encode(full(message_type, version), version)
    elif target == "addresses":
        for number, (name, newest) in enumerate(
            (("MetadataResponse", 13), ("FindCoordinatorResponse", 6), ("DescribeClusterResponse", 2))
        ):
            message_type = getattr(messages, name)
            for version in message_type.__schema__.versions:
                if version <= newest:
                    yield bytes((number, version)) + encode(full(message_type, version), version)
    elif target == "node_endpoints":
        yield from _with_node_endpoints((1, "ProduceResponse", 10, 13), (0, "FetchResponse", 16, 18))
    elif target == "share_node_endpoints":
        yield from _with_node_endpoints(
            (1, "ShareAcknowledgeResponse", 1, 2), (0, "ShareFetchResponse", 1, 2)
        )
    elif target == "connection":
        yield from _conversations()
        yield from _group_members(translation=False)
    elif target == "group_calls":
        yield from _group_members(translation=True)


def _with_node_endpoints(*apis: tuple[int, str, int, int]) -> Iterator[bytes]:
    for odd, name, low, high in apis:
        for version in range(low, high + 1):
            message = full(getattr(messages, name), version)
            yield bytes((odd, version - low, 1, 5, 9, 30)) + bytes(7) + encode(message, version)


def _conversations() -> Iterator[bytes]:
    versions = wire.response(ApiKey.API_VERSIONS, 3, 0, said.api_versions_response())
    asked = (0, said.ask_versions(0)), (1, versions)
    yield _stream(*asked, (0, said.metadata(1)), (0, said.heartbeat(2)), (0, said.produce(3, acks=0)))
    yield _stream(
        *asked, (0, said.produce(1, 1, size=150_000)), (1, wire.response(ApiKey.PRODUCE, 9, 1, bytes(40)))
    )
    shake = wire.request(ApiKey.SASL_HANDSHAKE, 1, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    shaken = wire.response(ApiKey.SASL_HANDSHAKE, 1, 1, SaslHandshakeResponse())
    token = wire.request(ApiKey.SASL_AUTHENTICATE, 2, 2, SaslAuthenticateRequest(auth_bytes=b"t"))
    done = wire.response(ApiKey.SASL_AUTHENTICATE, 2, 2, SaslAuthenticateResponse(session_lifetime_ms=9))
    yield _stream(*asked, (0, shake), (1, shaken), (0, token), (1, done), (0, said.heartbeat(3)))
    bare = wire.request(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    answered = wire.response(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeResponse())
    yield _stream((0, bare), (1, answered), (0, wire.framed(b"n,,n=a,r=b")), (1, wire.framed(b"r=b,s=c,i=1")))
    yield _share_consumer()
    yield _stream((0, wire.framed(b"\x60token")), (1, wire.framed(b"\x60answer")), (0, said.metadata(1)))


def _group_members(*, translation: bool) -> Iterator[bytes]:
    """Members of groups of each type: they join, are assigned something, go on, and ask what there is.

    The ``translation`` asks the broker before it answers somebody itself.
    """
    share_, streams, consumer = (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    )
    for group_id, admitted in (
        ("g", (share_, streams, consumer)),
        ("translate-g", (share_, streams, consumer)),
        ("share-g", (share_,)),
        ("streams-g", (streams,)),
        ("reject-g", ()),
    ):
        for api_key in (share_, streams, consumer):
            yield _heartbeats(api_key, group_id, refused=translation and api_key not in admitted)
    for version in METADATA:
        for group_id in ("g", "translate-g"):
            yield _connect_worker(version, group_id, asked=translation)
    yield _questions()


class _Conversation:
    """The chunks of a connection that has learned the broker's versions, and makes one call after another."""

    def __init__(self) -> None:
        versions = wire.response(ApiKey.API_VERSIONS, 3, 0, said.api_versions_response(_OFFERED))
        self._chunks = [(0, said.ask_versions(0)), (ANSWERS, versions)]
        self._calls = 0

    def call(
        self,
        api_key: ApiKey,
        version: int,
        request: Message | bytes,
        response: Message | bytes | None,
        *,
        asked: bool = False,
    ) -> None:
        """Make a call and get its answer, if any comes from the broker; ``asked`` that before, it says that the caller
        may act in the group.
        """
        self._calls += 1
        self._chunks.append((0, wire.request(api_key, version, self._calls, request)))
        if asked:
            may = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            self._chunks.append((ANSWERS, wire.response(ApiKey.HEARTBEAT, 3, 0, may)))
        if response is not None:
            self._chunks.append((ANSWERS, wire.response(api_key, version, self._calls, response)))

    def written(self) -> bytes:
        return _stream(*self._chunks)


_OFFERED = {
    **share.VERSIONS,
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}


def _heartbeats(api_key: ApiKey, group_id: str, *, refused: bool) -> bytes:
    """A member joins and is assigned something, goes on at the epoch that it got, and leaves; or it may not join."""
    api = ALL_APIS[api_key]
    request = structs.replace(full(api.request, 1), group_id=group_id, member_id="m")
    response = structs.replace(_accepted(full(api.response, 1)), member_id="m")
    conversation = _Conversation()
    for epoch in (0,) if refused else (0, response.member_epoch, -1):
        message = structs.replace(request, member_epoch=epoch)
        conversation.call(api_key, 1, message, None if refused else response, asked=refused)
    return conversation.written()


def _questions() -> bytes:
    """Calls about groups; some are relayed by their header, whatever stands behind it."""
    conversation = _Conversation()
    for api_key, version in (
        (ApiKey.SHARE_GROUP_DESCRIBE, 1),
        (ApiKey.SHARE_FETCH, 2),
        (ApiKey.SHARE_ACKNOWLEDGE, 2),
    ):
        api = ALL_APIS[api_key]
        conversation.call(
            api_key, version, full(api.request, version), _accepted(full(api.response, version))
        )
    for api_key in (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.STREAMS_GROUP_DESCRIBE,
    ):
        conversation.call(api_key, 0, b"\x02\x02g\0\0", bytes(8))
    return conversation.written()


def _connect_worker(version: int, group_id: str, *, asked: bool) -> bytes:
    """A worker of Kafka Connect joins, is assigned something, joins again with it, and leaves."""
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="m",
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="sessioned", metadata=METADATA[version]),),
    )
    joined = JoinGroupResponse(
        generation_id=1, protocol_type="connect", protocol_name="sessioned", leader="m", member_id="m"
    )
    sync = SyncGroupRequest(group_id=group_id, generation_id=1, member_id="m", protocol_type="connect")
    synced = SyncGroupResponse(protocol_type="connect", assignment=ASSIGNMENTS[version])
    heartbeat = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
    leave = LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id="m"),))
    conversation = _Conversation()
    for _ in range(2):
        conversation.call(ApiKey.JOIN_GROUP, 7, join, joined, asked=asked)
        conversation.call(ApiKey.SYNC_GROUP, 5, sync, synced)
        conversation.call(ApiKey.HEARTBEAT, 4, heartbeat, HeartbeatResponse())
    left = LeaveGroupResponse(members=(MemberResponse(member_id="m"),))
    conversation.call(ApiKey.LEAVE_GROUP, 5, leave, left)
    return conversation.written()


def _accepted(response: Any) -> Any:
    return structs.replace(response, error_code=0) if hasattr(response, "error_code") else response


def _share_consumer() -> bytes:
    """A share session is opened, gets records and acknowledges them; the last answer comes in pieces."""
    versions = wire.response(ApiKey.API_VERSIONS, 3, 0, said.api_versions_response(share.VERSIONS))
    return _stream(
        (0, said.ask_versions(0)),
        (1, versions),
        (0, share.fetch(1, 0)),
        (1, share.fetched(1, range(10))),
        (0, share.acknowledge(2, 1, range(10), (share.RENEW,))),
        (1, share.acknowledged(2)),
        (0, share.fetch(3, 2, range(10))),
        (1, share.fetched(3, range(10, 20), size=150_000)),
    )


def _stream(*chunks: tuple[int, bytes]) -> bytes:
    """Chunks as ``targets.fuzz_connection`` takes them; large ones are cut."""
    parts = [
        bytes((side,)) + data[at : at + 60_000] for side, data in chunks for at in range(0, len(data), 60_000)
    ]
    return b"".join(len(part).to_bytes(2) + part for part in parts)
