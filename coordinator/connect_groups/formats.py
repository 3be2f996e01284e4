"""What workers write into JoinGroup and SyncGroup, read within bounds and written again (KIP-415, KIP-507)."""

from collections.abc import Iterable, Mapping

import msgspec

from coordinator.connect_groups.work import CONNECTOR, Work, WorkSet
from protocol_codecs.all_messages import JoinGroupRequestProtocol
from protocol_codecs.errors import CodecError
from protocol_codecs.messages.connect_protocol import (
    FIRST_INCREMENTAL_VERSION,
    ConnectProtocolAssignment,
    ConnectProtocolConnector,
    ConnectProtocolMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)

INCREMENTAL: Mapping[str, int] = {"compatible": 1, "sessioned": 2}
"""The protocols that can be carried, with the version of what is written in them. ``default`` stops all workers."""

MOST_ELEMENTS = 20_000
"""Connectors and tasks that one worker, or the assignments of a whole group, may name."""


class Said(msgspec.Struct, frozen=True):
    """What a worker says of itself: where its REST API is, how far it has read the configurations, what it runs."""

    url: str
    config_offset: int
    runs: WorkSet


class Difference(msgspec.Struct, frozen=True):
    """What a leader has computed for one worker. ``delay_ms`` is when the leader joins again by itself; 0 is never."""

    error: int
    leader: str
    leader_url: str
    config_offset: int
    assigned: WorkSet
    revoked: WorkSet
    delay_ms: int = 0


def read_worker(protocols: Iterable[JoinGroupRequestProtocol]) -> Said | None:
    """Read what a worker says in the protocol that it prefers; None if it is nothing that a worker writes."""
    preferred = next((one for one in protocols if one.name in INCREMENTAL), None)
    if preferred is None:
        return None
    return read_metadata(preferred.metadata)


def read_metadata(content: bytes) -> Said | None:
    """Read what a worker writes for its leader; None if it is nothing that a worker writes."""
    try:
        version, metadata = decode_metadata(content, MOST_ELEMENTS)
        if version < FIRST_INCREMENTAL_VERSION or metadata.config_offset < -1:
            return None
        if metadata.allocation is None:
            return Said(metadata.url, metadata.config_offset, frozenset())
        version, allocation = decode_assignment(metadata.allocation, MOST_ELEMENTS)
    except CodecError:
        return None
    runs = _works(allocation.assignment)
    if version < FIRST_INCREMENTAL_VERSION or runs is None:
        return None
    return Said(metadata.url, metadata.config_offset, runs)


def for_leader(said: Said, protocol: str) -> bytes:
    """Return a worker's metadata as its leader gets it."""
    version = INCREMENTAL[protocol]
    allocation = None
    if said.runs:
        whole = ConnectProtocolAssignment(
            error=0,
            leader="",
            leader_url="",
            config_offset=said.config_offset,
            assignment=_connectors(said.runs),
            delay=0,
        )
        allocation = encode_assignment(whole, version)
    metadata = ConnectProtocolMetadata(url=said.url, config_offset=said.config_offset, allocation=allocation)
    return encode_metadata(metadata, version)


def read_differences(contents: Mapping[str, bytes]) -> dict[str, Difference] | None:
    """Read what a leader has computed; None if it is nothing that a leader writes, or more than the bound in all."""
    left = MOST_ELEMENTS
    read = {}
    for member_id, content in contents.items():
        try:
            version, message = decode_assignment(content, left)
        except CodecError:
            return None
        assigned, revoked = _works(message.assignment), _works(message.revoked)
        if version < FIRST_INCREMENTAL_VERSION or assigned is None or revoked is None or message.delay < 0:
            return None
        left -= sum(1 + len(one.tasks) for one in (*(message.assignment or ()), *(message.revoked or ())))
        read[member_id] = Difference(
            message.error,
            message.leader,
            message.leader_url,
            message.config_offset,
            assigned,
            revoked,
            message.delay,
        )
    return read


def for_worker(difference: Difference, protocol: str) -> bytes:
    """Return a worker's assignment."""
    message = ConnectProtocolAssignment(
        error=difference.error,
        leader=difference.leader,
        leader_url=difference.leader_url,
        config_offset=difference.config_offset,
        assignment=_connectors(difference.assigned),
        revoked=_connectors(difference.revoked),
        delay=difference.delay_ms,
    )
    return encode_assignment(message, INCREMENTAL[protocol])


def _works(listed: Iterable[ConnectProtocolConnector] | None) -> WorkSet | None:
    """Return connectors and tasks, doubles once; None for a name or a number that Connect does not have."""
    works = frozenset(Work(one.connector, task) for one in listed or () for task in one.tasks)
    return None if any(not work.connector or work.task < CONNECTOR for work in works) else works


def _connectors(works: Iterable[Work]) -> tuple[ConnectProtocolConnector, ...]:
    tasks: dict[str, list[int]] = {}
    for work in sorted(works):
        tasks.setdefault(work.connector, []).append(work.task)
    return tuple(
        ConnectProtocolConnector(connector=name, tasks=tuple(numbers)) for name, numbers in tasks.items()
    )
