"""What workers of Kafka Connect embed, against Connect's own classes: they read what we write, whole or cut short."""

from collections.abc import Iterator
from typing import Any

import pytest
from codec_values import CASES, OF_CONNECT, case_id, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol_codecs import MalformedMessage
from protocol_codecs.message import Message
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
from protocol_codecs.schema import Field
from tests.protocol_codecs.connect_vectors import ASSIGNMENTS, METADATA
from tests.skips import Need, without
from tools.codec_oracle.connect import connect_vectors
from tools.codec_oracle.oracle import Answer, ConnectOracle, OracleUnavailableError
from tools.kafka.jars import KafkaUnavailableError

pytestmark = pytest.mark.kafka

KAFKA = "4.4.0"
CASES_OF_CONNECT = [case for case in CASES if case[0] in OF_CONNECT]

every_case = pytest.mark.parametrize(
    ("message_type", "version"), CASES_OF_CONNECT, ids=map(case_id, CASES_OF_CONNECT)
)


@pytest.fixture(scope="module")
def connect() -> Iterator[ConnectOracle]:
    try:
        running = ConnectOracle(KAFKA)
    except OracleUnavailableError as error:
        without(Need.KAFKA, error)
    with running:
        yield running


def test_the_known_bytes_are_those_of_connect_runtime_4_4():
    try:
        written = connect_vectors(KAFKA)
    except KafkaUnavailableError as error:
        without(Need.KAFKA, error)
    known = {("assignment", version): data for version, data in ASSIGNMENTS.items()}
    assert written == known | {("metadata", version): data for version, data in METADATA.items()}


def running_something(field: Field) -> st.SearchStrategy[Any] | None:
    """What a worker runs is an assignment again, not any bytes."""
    if field.name != "allocation":
        return None
    assignments = st.tuples(st.integers(1, 2), values(ConnectProtocolAssignment, 1))
    return assignments.map(lambda drawn: encode_assignment(drawn[1], drawn[0]))


@every_case
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_connect_reads_the_same(
    connect: ConnectOracle, message_type: type[Message], version: int, data: st.DataObject
):
    message = data.draw(values(message_type, version, running_something))
    encoded = embedded(message, version)

    answer = connect.ask(message_type.__name__, version, encoded)

    assert isinstance(answer, Answer), answer
    assert answer.written == encoded
    assert answer.fields == as_connect_reads_it(message, version)


@every_case
def test_connect_reads_as_much_of_a_message_that_ends_early(
    connect: ConnectOracle, message_type: type[Message], version: int
):
    whole = (METADATA if message_type is ConnectProtocolMetadata else ASSIGNMENTS)[version]
    for size in range(len(whole) + 1):
        answer = connect.ask(message_type.__name__, version, whole[:size])
        found = answer.fields if isinstance(answer, Answer) else None
        assert read(message_type, whole[:size]) == found, (size, answer)


def embedded(message: Message, version: int) -> bytes:
    if isinstance(message, ConnectProtocolMetadata):
        return encode_metadata(message, version)
    assert isinstance(message, ConnectProtocolAssignment)
    return encode_assignment(message, version)


def read(message_type: type[Message], data: bytes) -> dict[str, Any] | None:
    """What we read, as :func:`as_connect_reads_it`; None if it is malformed."""
    decode = decode_metadata if message_type is ConnectProtocolMetadata else decode_assignment
    try:
        version, message = decode(data)
    except MalformedMessage:
        return None
    return as_connect_reads_it(message, version)


def as_connect_reads_it(message: Message, version: int) -> dict[str, Any]:
    """The fields as ConnectOracle.java prints them: connectors and their tasks apart, null as nothing."""
    if isinstance(message, ConnectProtocolMetadata):
        printed = {"url": message.url, "configOffset": message.config_offset}
        if version:
            allocation = message.allocation
            running = None if allocation is None else decode_assignment(allocation)[1]
            printed["allocation"] = running and as_connect_reads_it(running, version)
        return printed
    assert isinstance(message, ConnectProtocolAssignment)
    connectors, tasks = apart(message.assignment)
    printed = {
        "error": message.error,
        "leader": message.leader,
        "leaderUrl": message.leader_url,
        "configOffset": message.config_offset,
        "connectors": connectors,
        "tasks": tasks,
    }
    if version:
        printed["revokedConnectors"], printed["revokedTasks"] = apart(message.revoked)
        printed["delay"] = message.delay
    return printed


def apart(listed: tuple[ConnectProtocolConnector, ...] | None) -> tuple[list[str], list[list[Any]]]:
    pairs = [(one.connector, task) for one in listed or () for task in one.tasks]
    connectors = [connector for connector, task in pairs if task == CONNECTOR]
    return connectors, [list(pair) for pair in pairs if pair[1] != CONNECTOR]
