"""What a cluster is asked, as librdkafka answers."""

from confluent_kafka import Uuid

from pipeline.readiness.cluster import id_text
from protocol_codecs.uuids import uuid_from_text


def test_a_topic_id_is_written_as_kafka_writes_it() -> None:
    most, least = -4611686018427387905, -1
    text = id_text(str(Uuid(most, least)))
    assert text == "v____________________w"
    assert bytes(uuid_from_text(text)) == most.to_bytes(8, signed=True) + least.to_bytes(8, signed=True)
