"""Every message and version that kio knows too: the same bytes, both ways."""

import pytest
from codec_kio import counterpart, expressible_in_kio, kio_decode, kio_encode, to_kio
from codec_values import CASES, OF_CONNECT, case_id, values
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol_codecs import decode, encode
from protocol_codecs.message import Message

KNOWN_TO_KIO = [case for case in CASES if counterpart(*case) is not None]

UNKNOWN_TO_KIO = {
    ("OffsetCommitRequest", 0),  # gone from Kafka 4
    ("OffsetCommitRequest", 1),
    ("OffsetCommitResponse", 0),
    ("OffsetCommitResponse", 1),
    ("OffsetFetchRequest", 0),
    ("OffsetFetchResponse", 0),
    ("RequestHeader", 0),
    ("ApiVersionsRequest", 5),  # new in Kafka 4.4
    ("ApiVersionsResponse", 5),
    ("DeleteGroupsRequest", 3),
    ("DeleteGroupsResponse", 3),
    ("TxnOffsetCommitRequest", 6),
    ("TxnOffsetCommitResponse", 6),
    ("StreamsGroupHeartbeatRequest", 1),
    ("StreamsGroupHeartbeatResponse", 1),
    *((message_type.__name__, version) for message_type, version in CASES if message_type in OF_CONNECT),
}
"""What test_against_java.py and test_connect_against_java.py prove instead."""


def test_kio_knows_everything_else():
    unknown = {
        (message_type.__name__, version)
        for message_type, version in CASES
        if (message_type, version) not in KNOWN_TO_KIO
    }
    assert unknown == UNKNOWN_TO_KIO


@pytest.mark.parametrize(("message_type", "version"), KNOWN_TO_KIO, ids=map(case_id, KNOWN_TO_KIO))
@settings(max_examples=15)
@given(data=st.data())
def test_same_bytes_and_same_values(message_type: type[Message], version: int, data: st.DataObject):
    kio_type = counterpart(message_type, version)
    assert kio_type is not None
    message = data.draw(values(message_type, version, expressible_in_kio))
    entity = to_kio(message, version, kio_type)

    encoded = encode(message, version)

    assert encoded == kio_encode(entity)
    assert decode(message_type, version, encoded) == message
    assert kio_decode(kio_type, encoded) == entity
