"""What becomes of questions about the topic that a broker can't answer yet."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from proxy.member_log import topic


class Broker:
    """Says these errors in turn, and then an answer."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.asked = 0

    def ask(self) -> str:
        self.asked += 1
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return "the answer"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(topic, "_PAUSE_S", 0.0)


@pytest.mark.parametrize("unknown", topic._NOT_KNOWN_YET)
def test_a_broker_that_does_not_know_the_topic_yet_is_asked_again(unknown):
    broker = Broker(unknown, unknown)
    assert topic.when_known(broker.ask) == "the answer"
    assert broker.asked == 3


def test_another_error_is_told_at_once():
    broker = Broker(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException) as told:
        topic.when_known(broker.ask)
    assert told.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert broker.asked == 1


def test_a_topic_that_stays_unknown_is_told_after_a_while(monkeypatch):
    monkeypatch.setattr(topic, "TIMEOUT_S", -1.0)
    broker = Broker(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(KafkaException):
        topic.when_known(broker.ask)
    assert broker.asked == 1
