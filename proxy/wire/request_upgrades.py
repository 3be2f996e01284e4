"""Rewrites requests in versions that the broker lacks to a newer version, and their responses back to the older one.

Kafka 4 has no OffsetCommit v0 and v1 and no OffsetFetch v0 any more (KIP-896), and Kafka 4.0.0 alone no JoinGroup v0
and v1. Clients that know nothing newer are offered these all the same: sarama up to 1.38 commits with v1 whatever it is
configured for. What an upgraded request can't say as the old one did:

- JoinGroup v0 has no rebalance timeout; brokers that have v0 use the session timeout.
- OffsetCommit v0 and OffsetFetch v0 meant offsets in ZooKeeper, which no broker has any more. Raised, they mean those
  in Kafka, as from v1 on. A commit of v0 names no member, so the broker takes it for a group without members only.
- OffsetCommit v1 may date each commit, from when it is kept; v2 has no such field. The date is dropped, and the
  broker keeps offsets for as long as it is configured to (retention -1).
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.messages.join_group import JoinGroupRequest
from protocol_codecs.messages.offset_commit import OffsetCommitRequest
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest
from protocol_codecs.registry import APIS
from proxy.wire.framing import correlation_id_of, request_frame, response_body_offset, response_frame
from proxy.wire.request_header import RequestHeader
from translation.apis.commit_messages import TIMESTAMPS_IN, without_timestamps
from translation.members import rebalance_timeout


def lowest_offered_version(api_key: int, lowest: int) -> int:
    """The lowest version of an API that clients are offered, where the broker has it from ``lowest`` on."""
    return 0 if lowest <= _newest_raised_to(api_key) else lowest


def needs_upgrade(header: RequestHeader, lowest: int) -> bool:
    """Whether a request goes to the broker as :func:`upgrade` makes it, where the broker has it from ``lowest`` on."""
    return header.version < lowest <= _newest_raised_to(header.api_key)


def upgrade(
    header: RequestHeader, client_id: str | None, message: Message, version: int
) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The frame of a request in ``version``, and what brings its response back to the version of the client.

    The correlation id stays the client's. The function that lowers raises MalformedMessage for what is no response.
    """
    api_key = header.api_key

    def downgrade_response(response_in_version: bytes) -> bytes:
        offset = response_body_offset(api_key, version, response_in_version)
        response = decode(APIS[api_key].response, version, response_in_version, offset)
        return response_frame(api_key, header.version, correlation_id_of(response_in_version), response)

    message = _UPGRADES[api_key].raised(message, header.version)
    return request_frame(api_key, version, header.correlation_id, client_id, message), downgrade_response


def _join_group(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    if version > 0:
        return request
    return replace(request, rebalance_timeout_ms=rebalance_timeout.of_client_ms(request))


def _offset_commit(request: OffsetCommitRequest, version: int) -> OffsetCommitRequest:
    return without_timestamps(request) if version == TIMESTAMPS_IN else request


def _offset_fetch(request: OffsetFetchRequest, _version: int) -> OffsetFetchRequest:
    return request  # v0 and v1 have the same fields


class _Upgrade(msgspec.Struct, frozen=True):
    """``raised`` makes a request of an old version one that every version can say up to ``newest``."""

    raised: Callable[[Any, int], Message]
    newest: int


_UPGRADES: Mapping[int, _Upgrade] = {
    ApiKey.JOIN_GROUP: _Upgrade(_join_group, 9),
    ApiKey.OFFSET_COMMIT: _Upgrade(_offset_commit, 9),  # v10 names topics by their ids
    ApiKey.OFFSET_FETCH: _Upgrade(_offset_fetch, 7),  # v8 asks about several groups
}
_NEVER = -1


def _newest_raised_to(api_key: int) -> int:
    """A broker that lacks this version, too, gets requests as they are, and refuses them itself."""
    upgrade_ = _UPGRADES.get(api_key)
    return _NEVER if upgrade_ is None else upgrade_.newest
