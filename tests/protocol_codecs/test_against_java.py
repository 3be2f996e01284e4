"""Every message and version against the classes that Kafka's own client was generated with.

Kafka reads what we write, finds the same fields in it, and writes the same bytes. Kafka 4.4 is asked about all
that it has, 3.9 about the versions that Kafka 4 removed. No declared version is left out: what Kafka Connect declares
outside the client is in ``test_connect_against_java.py``.
"""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from codec_values import CASES, OF_CONNECT, case_id, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol_codecs import encode, kinds, uuid_to_text
from protocol_codecs.message import Message
from tests.skips import Need, without
from tools.codec_oracle.oracle import Answer, Oracle, OracleUnavailableError

REMOVED_IN_KAFKA_4 = {
    ("OffsetCommitRequest", 0),
    ("OffsetCommitRequest", 1),
    ("OffsetCommitResponse", 0),
    ("OffsetCommitResponse", 1),
    ("OffsetFetchRequest", 0),
    ("OffsetFetchResponse", 0),
    ("RequestHeader", 0),
}

CASES_OF_4_4 = [
    (message_type, version)
    for message_type, version in CASES
    if (message_type.__name__, version) not in REMOVED_IN_KAFKA_4 and message_type not in OF_CONNECT
]
CASES_OF_3_9 = [(t, v) for t, v in CASES if (t.__name__, v) in REMOVED_IN_KAFKA_4]

pytestmark = pytest.mark.kafka


def oracle(kafka_version: str) -> Iterator[Oracle]:
    try:
        running = Oracle(kafka_version)
    except OracleUnavailableError as error:
        without(Need.KAFKA, error)
    with running:
        yield running


@pytest.fixture(scope="module")
def kafka_4_4() -> Iterator[Oracle]:
    yield from oracle("4.4.0")


@pytest.fixture(scope="module")
def kafka_3_9() -> Iterator[Oracle]:
    yield from oracle("3.9.1")


@pytest.mark.parametrize(("message_type", "version"), CASES_OF_4_4, ids=map(case_id, CASES_OF_4_4))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_kafka_4_4_reads_the_same(
    kafka_4_4: Oracle, message_type: type[Message], version: int, data: st.DataObject
):
    assert_kafka_reads_the_same(kafka_4_4, data.draw(values(message_type, version)), version)


@pytest.mark.parametrize(("message_type", "version"), CASES_OF_3_9, ids=map(case_id, CASES_OF_3_9))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_kafka_3_9_reads_the_same(
    kafka_3_9: Oracle, message_type: type[Message], version: int, data: st.DataObject
):
    assert_kafka_reads_the_same(kafka_3_9, data.draw(values(message_type, version)), version)


def test_kafka_4_4_has_nothing_of_what_it_is_not_asked_about(kafka_4_4: Oracle):
    for name, version in REMOVED_IN_KAFKA_4:
        assert kafka_4_4.ask(name, version, b"") == "refused: no such version"


def assert_kafka_reads_the_same(kafka: Oracle, message: Message, version: int) -> None:
    encoded = encode(message, version)
    answer = kafka.ask(type(message).__name__, version, encoded)
    assert isinstance(answer, Answer), answer
    assert answer.written == encoded
    assert answer.fields == as_kafka_prints_it(message, version)


def as_kafka_prints_it(message: Message, version: int) -> dict[str, Any]:
    """Kafka's JSON form: camel case, base64, and tagged fields only where they are not at their default."""
    printed = {}
    for field in message.__schema__.fields:
        value = getattr(message, field.name)
        if field.plain_in(version) or (field.tagged_in(version) and value != field.default):
            name = camel_case(field.name)
            printed[name] = printed_value(value, field.kind, version)
            if field.name == "records" and value is not None:
                printed[name] = ""  # Kafka does not print what its logs are made of
    return printed


def printed_value(value: Any, kind: kinds.Kind, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case kinds.Binary():
            return base64.b64encode(value).decode()
        case kinds.Identifier():
            return uuid_to_text(value)
        case kinds.Array():
            return [printed_value(item, kind.element, version) for item in value]
        case kinds.Nested():
            return as_kafka_prints_it(value, version)
    return value


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
