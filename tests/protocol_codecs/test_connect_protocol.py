"""The metadata and assignments of Connect workers, as Kafka's own classes write them.

The bytes were written by ``ConnectProtocol`` and ``IncrementalCooperativeConnectProtocol`` of connect-runtime 4.4.0.
``tests/protocol_codecs/test_connect_against_java.py`` has those classes write them again.
"""

import pytest
from msgspec import structs

from protocol_codecs import MalformedMessage, TooManyElements
from protocol_codecs.messages.connect_protocol import (
    CONNECTOR,
    ConnectProtocolAssignment,
    ConnectProtocolConnector,
    ConnectProtocolMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from tests.protocol_codecs.connect_vectors import ASSIGNMENTS, METADATA

EAGER = ConnectProtocolAssignment(
    error=1,
    leader="leader-1",
    leader_url="http://w1:8083/",
    config_offset=42,
    assignment=(ConnectProtocolConnector(connector="src", tasks=(CONNECTOR, 0)),),
)
INCREMENTAL = ConnectProtocolAssignment(
    leader="leader-1",
    leader_url="http://w1:8083/",
    config_offset=42,
    assignment=(
        ConnectProtocolConnector(connector="src", tasks=(CONNECTOR, 0, 1)),
        ConnectProtocolConnector(connector="sink", tasks=(CONNECTOR,)),
        ConnectProtocolConnector(connector="other", tasks=(3,)),
    ),
    revoked=(ConnectProtocolConnector(connector="old", tasks=(CONNECTOR, 0)),),
    delay=300_000,
)
WORKER = ConnectProtocolMetadata(url="http://w2:8083/", config_offset=7)


@pytest.mark.parametrize(("version", "message"), [(0, EAGER), (1, INCREMENTAL), (2, INCREMENTAL)])
def test_assignments_are_kafkas(version, message):
    assert encode_assignment(message, version) == ASSIGNMENTS[version]
    assert decode_assignment(ASSIGNMENTS[version]) == (version, message)


def test_metadata_is_kafkas():
    running = ConnectProtocolMetadata(url="http://w2:8083/", config_offset=7, allocation=ASSIGNMENTS[2])
    for version, message in ((0, WORKER), (1, WORKER), (2, running)):
        assert encode_metadata(message, version) == METADATA[version]
        assert decode_metadata(METADATA[version]) == (version, message)


def test_a_newer_version_is_read_as_the_newest_known():
    version, message = decode_assignment(b"\0\x09" + ASSIGNMENTS[2][2:] + b"more")
    assert (version, message) == (9, INCREMENTAL)


@pytest.mark.parametrize("version", [1, 2])
def test_v1_may_end_behind_any_field_of_v0_and_its_own(version):
    claims = version.to_bytes(2, "big")
    assert decode_metadata(claims + METADATA[0][2:]) == (version, WORKER)
    assert decode_assignment(claims + ASSIGNMENTS[0][2:]) == (version, EAGER)
    nothing = structs.replace(EAGER, assignment=None)
    before_connectors = ASSIGNMENTS[0].index(b"\0\0\0\x01\0\x03src")
    assert decode_assignment(claims + ASSIGNMENTS[0][2:before_connectors]) == (version, nothing)
    at_once = structs.replace(INCREMENTAL, delay=0)
    assert decode_assignment(claims + ASSIGNMENTS[1][2:-4]) == (version, at_once)


@pytest.mark.parametrize("lacks", [1, 5, 22])
def test_v1_that_ends_within_a_field_of_its_own_is_malformed(lacks):
    with pytest.raises(MalformedMessage):
        decode_assignment(ASSIGNMENTS[1][:-lacks])


@pytest.mark.parametrize(
    ("decode", "embedded"),
    [(decode_metadata, METADATA[0][:-1]), (decode_assignment, ASSIGNMENTS[0][:-1])]
    + [
        (decode, short)
        for decode in (decode_metadata, decode_assignment)
        for short in (b"", b"\0", b"\xff\xff")
    ],
)
def test_what_is_neither_is_malformed(decode, embedded):
    with pytest.raises(MalformedMessage):
        decode(embedded)


def test_connectors_and_tasks_are_bounded():
    assert decode_assignment(ASSIGNMENTS[2], 11)[1] == INCREMENTAL
    with pytest.raises(TooManyElements):
        decode_assignment(ASSIGNMENTS[2], 10)
