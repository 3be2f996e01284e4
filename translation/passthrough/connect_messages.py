"""Reads what workers of Kafka Connect put into JoinGroup, and their leader into SyncGroup, within bounds."""

from collections.abc import Iterable

import msgspec

from protocol_codecs import CodecError
from protocol_codecs.messages.connect_protocol import (
    FIRST_INCREMENTAL_VERSION,
    ConnectProtocolConnector,
    ConnectProtocolMetadata,
    decode_assignment,
    decode_metadata,
)
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import ConnectWorker
from translation.partitions import Role
from translation.passthrough.observed_partitions import NOTHING, Owned

CONNECT = "connect"
"""The protocol type of Connect's workers."""

CONFIG_MISMATCH = "CONFIG_MISMATCH"
"""Connect's name for the one error of an assignment (1)."""

_MOST_ELEMENTS = 10_000
"""Connectors and tasks of one message. Of a message with more nothing is read."""
_LONGEST_TEXT = 255
"""Characters of an address, an id or the name of a connector. A longer one is left out."""

_CONNECT = Role.CONNECT


class Assigned(msgspec.Struct, frozen=True):
    """An assignment. ``incremental``: it takes up and gives up; else it is all that the worker runs."""

    incremental: bool
    taken_up: Owned
    given_up: Owned
    failed: bool
    leader: str
    leader_url: str
    delay_ms: int


def worker_in(message: JoinGroupRequest, before: ConnectWorker | None) -> ConnectWorker | None:
    """Return the worker that joins; ``before`` is what was known of it. None if its metadata can't be read."""
    metadata = _metadata(message)
    if metadata is None:
        return before
    url, offset = _kept(metadata.url), metadata.config_offset
    if before is None:
        return ConnectWorker(url, offset)
    return msgspec.structs.replace(before, url=url, config_offset=offset, delay_ms=0)


def allocated_in(message: JoinGroupRequest) -> Owned | None:
    """Return what a worker that joins goes on to run: nothing by the eager protocol. None if it can't be read."""
    metadata = _metadata(message)
    if metadata is None:
        return None
    if metadata.allocation is None:
        return NOTHING
    try:
        _, allocation = decode_assignment(metadata.allocation, _MOST_ELEMENTS)
    except CodecError:
        return None
    return _owned(allocation.assignment or ())


def assigned_in(assignment: bytes) -> Assigned | None:
    """Return what a SyncGroup's answer assigns to a worker; None if that can't be read."""
    try:
        version, message = decode_assignment(assignment, _MOST_ELEMENTS)
    except CodecError:
        return None
    return Assigned(
        incremental=version >= FIRST_INCREMENTAL_VERSION,
        taken_up=_owned(message.assignment or ()),
        given_up=_owned(message.revoked or ()),
        failed=message.error != 0,
        leader=_kept(message.leader),
        leader_url=_kept(message.leader_url),
        delay_ms=max(0, message.delay),
    )


def _metadata(message: JoinGroupRequest) -> ConnectProtocolMetadata | None:
    """Return the metadata of the protocol that the worker prefers; it tells at least as much as the others."""
    if not message.protocols:
        return None
    try:
        return decode_metadata(message.protocols[0].metadata, _MOST_ELEMENTS)[1]
    except CodecError:
        return None


def _owned(listed: Iterable[ConnectProtocolConnector]) -> Owned:
    return frozenset(
        (one.connector, None, task, _CONNECT)
        for one in listed
        if len(one.connector) <= _LONGEST_TEXT
        for task in one.tasks
    )


def _kept(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else ""
