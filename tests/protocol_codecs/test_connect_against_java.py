"""The bytes that our tests know of Kafka Connect are what its own classes write now."""

import pytest

from tests.protocol_codecs.connect_vectors import ASSIGNMENTS, METADATA
from tools.codec_oracle.connect import connect_vectors
from tools.kafka.jars import KafkaUnavailableError

pytestmark = pytest.mark.kafka


def test_the_known_bytes_are_those_of_connect_runtime_4_4():
    try:
        written = connect_vectors("4.4.0")
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    known = {("assignment", version): data for version, data in ASSIGNMENTS.items()}
    assert written == known | {("metadata", version): data for version, data in METADATA.items()}
