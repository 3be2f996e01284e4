"""What the reader makes of what librdkafka gives it, without a broker (with one: tests/integration)."""

import threading

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from proxy.config.fleet import Fleet
from proxy.fleet.log_client import _Producing
from proxy.fleet.log_events import AccessLost, EndReached, PartitionLost, RecordRead
from proxy.fleet.log_reader import _MOST_CLOSING, LogReader
from proxy.fleet.topic import access_hint, create_command, required_settings
from tests.translation.fleet.test_formats import plant_second_format
from translation.fleet.formats import DEFAULT_FORMAT, FORMAT_HEADER, FORMATS
from translation.fleet.outputs import WriteRecord
from translation.fleet.records import (
    Ignored,
    Kind,
    MemberRecord,
    Writer,
    encode_key,
    encode_value,
    member_key,
    partition_of,
)
from translation.fleet.replicas import REPLICA_HEADER, Replica

KEY, WRITER = member_key("payments", "epochgate-1"), Writer(b"writer")
RECORD = MemberRecord(Kind.SERVED, 4, first=True)
FORMAT = FORMATS[DEFAULT_FORMAT].header
KEY_BYTES, VALUE_BYTES = encode_key(KEY, WRITER), encode_value(RECORD)
FLEET = Fleet(kafka={"bootstrap.servers": "kafka:9092"})


class Message:
    """As much of librdkafka's message as is looked at."""

    def __init__(self, offset=5, *, key=KEY_BYTES, value=VALUE_BYTES, error=None, **more):
        self._offset, self._key, self._value, self._error = offset, key, value, error
        self._headers = more.get("headers", [(FORMAT_HEADER, FORMAT)])
        self._epoch = more.get("epoch")

    def partition(self):
        return PARTITION

    def offset(self):
        return self._offset

    def error(self):
        return None if self._error is None else KafkaError(self._error)

    def key(self):
        return self._key

    def value(self):
        return self._value

    def headers(self):
        return self._headers

    def timestamp(self):
        return 2, 1_000

    def leader_epoch(self):
        return self._epoch


class Client:
    fleet = FLEET


PARTITION = partition_of(KEY, FLEET.partitions)


def reader():
    made = LogReader.__new__(LogReader)
    made._client, made._topic = Client(), FLEET.topic
    made._positions, made._epochs = dict.fromkeys(range(16), OFFSET_BEGINNING), {}
    return made


def test_a_record_is_read_with_its_place():
    event = reader()._event(Message())
    assert isinstance(event, RecordRead)
    assert event[:3] == (PARTITION, KEY, WRITER)
    assert event.stored is not None
    assert event.stored[:2] == (5, 1_000)
    assert event.stored.record == RECORD


def test_a_record_that_was_read_is_not_read_again_after_another_assignment():
    one = reader()
    assert one._event(Message(5)) is not None
    assert one._event(Message(5)) is None


class BadHeaders(Message):
    """A record whose header has a name that is not UTF-8."""

    def headers(self):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def test_what_is_none_of_the_log_is_named_and_only_moves_the_position():
    """As a ``kafka-console-producer`` would write it, or somebody who means harm; the thread goes on reading."""
    one = reader()
    bad = (
        Message(5, key=b"\xff", headers=None),
        Message(6, key=b"\x93\xa1\xff\xa1m\xc4\x01w"),
        Message(7, value=b"\x81\xa1x" + b"\x91" * 3_000),
        BadHeaders(8),
        Message(9, key=None),
    )
    events = [one._event(message) for message in bad]
    assert [(event.partition, event.offset) for event in events] == [
        (PARTITION, offset) for offset in range(5, 10)
    ]
    assert [event.reason for event in events] == [
        Ignored.FORMAT, Ignored.KEY, Ignored.VALUE, Ignored.FORMAT, Ignored.KEY
    ]  # fmt: skip
    assert isinstance(one._event(Message(10)), RecordRead)


def test_a_header_that_is_not_known_does_not_matter():
    event = reader()._event(Message(headers=[("trace", b"x"), (FORMAT_HEADER, FORMAT), ("cell", None)]))
    assert isinstance(event, RecordRead)


def test_a_record_is_read_in_its_own_format(monkeypatch):
    second = plant_second_format(monkeypatch)
    message = Message(value=second.encode(RECORD), headers=[(FORMAT_HEADER, second.header)])
    event = reader()._event(message)
    assert isinstance(event, RecordRead)
    assert event.stored is not None
    assert event.stored.record == RECORD


class Producer:
    """Takes what is produced."""

    def __init__(self):
        self.headers = []

    def produce(self, _topic, **record):
        self.headers.append(record["headers"])


def test_each_record_has_the_header_of_the_format_that_it_is_written_in(monkeypatch):
    second = plant_second_format(monkeypatch)
    monkeypatch.setattr(_Producing, "_new_producer", lambda _self: Producer())
    monkeypatch.setattr(Client, "writer", WRITER, raising=False)
    monkeypatch.setattr(Client, "replica", Replica(WRITER, "pod-0"), raising=False)
    monkeypatch.setattr(Client, "is_stopping", False, raising=False)
    producing = _Producing(Client())
    for value in (VALUE_BYTES, None):
        producing._produce(WriteRecord(3, KEY_BYTES, value, WRITER, second.number))
    of_record, of_probe = producing._producer.headers
    assert of_record == {FORMAT_HEADER: b"\x02"}
    assert of_probe.keys() == {FORMAT_HEADER, REPLICA_HEADER}
    assert of_probe[FORMAT_HEADER] == b"\x02"


def test_the_end_of_a_partition():
    assert reader()._event(Message(9, error=KafkaError._PARTITION_EOF)) == EndReached(PARTITION, 9)


def test_a_right_that_is_missing_is_told_with_the_command_that_gives_it():
    event = reader()._event(Message(error=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert isinstance(event, AccessLost)
    assert access_hint(FLEET) in event.reason


def test_a_right_on_the_group_is_not_needed():
    assert reader()._event(Message(error=KafkaError.GROUP_AUTHORIZATION_FAILED)) is None


def test_what_was_read_may_be_lost():
    one = reader()
    for error in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE):
        assert one._is_lost(Message(error=error))
    assert not one._is_lost(Message(epoch=4))
    assert not one._is_lost(Message(epoch=5))
    assert one._is_lost(Message(epoch=3))
    assert not one._is_lost(Message(error=KafkaError._PARTITION_EOF))


def test_the_command_that_makes_the_topic_has_all_settings():
    command = create_command(FLEET)
    assert command.startswith(
        "kafka-topics.sh --bootstrap-server kafka:9092 --create --topic __epochgate_members "
    )
    for name, value in required_settings(3).items():
        assert f"--config {name}={value}" in command
    assert "min.insync.replicas=2" in command
    assert required_settings(1)["min.insync.replicas"] == "1"


class Consumer:
    """Gives its messages, and then has the test do something. Closing it waits until the test ends."""

    def __init__(self, messages, then, ended):
        self._messages, self._then, self._ended = messages, then, ended
        self.assigned = []

    def assign(self, places):
        self.assigned = [(one.partition, one.offset, one.leader_epoch) for one in places]

    def consume(self, _count, _seconds):
        given, self._messages = self._messages, []
        if not given:
            self._then()
        return given

    def close(self):
        self._ended.wait()


class Running(Client):
    """A client that runs its reader."""

    def __init__(self):
        self.is_stopping = False
        self.told = []

    def configured(self, settings):
        return dict(settings)

    def tell(self, events):
        self.told += events

    def replace_reader(self):
        self.reader.replace()

    def pause(self, _seconds):
        pass

    def stop(self):
        self.is_stopping = True


@pytest.fixture
def ended():
    event = threading.Event()
    yield event
    event.set()


def test_a_reader_that_is_replaced_goes_on_where_it_was(monkeypatch, ended):
    client, closed = Running(), threading.Event()
    closed.set()
    stuck = Consumer([Message(5, epoch=4)], client.replace_reader, ended)
    other = Consumer([Message(5, epoch=4), Message(6, epoch=4)], client.stop, closed)
    made = iter((stuck, other))
    monkeypatch.setattr("proxy.fleet.log_reader.Consumer", lambda _settings: next(made))
    client.reader = LogReader(client)
    client.reader.run()
    assert set(stuck.assigned) == {(partition, OFFSET_BEGINNING, None) for partition in range(16)}
    assert set(other.assigned) ^ set(stuck.assigned) == {
        (PARTITION, OFFSET_BEGINNING, None),
        (PARTITION, 6, 4),
    }
    assert [event.offset for event in client.told] == [5, 6]


def test_a_reader_that_is_stuck_is_replaced_also_while_it_is_asked_for_an_end(monkeypatch, ended):
    client, closed = Running(), threading.Event()
    closed.set()
    stuck = Consumer([Message(error=KafkaError._AUTO_OFFSET_RESET)], client.stop, ended)
    other = Consumer([], client.stop, closed)
    stuck.get_watermark_offsets = fails(client.replace_reader)
    other.get_watermark_offsets = lambda _place, timeout: (0, 9)
    made = iter((stuck, other))
    monkeypatch.setattr("proxy.fleet.log_reader.Consumer", lambda _settings: next(made))
    client.reader = LogReader(client)
    client.reader.run()
    assert client.told == [PartitionLost(PARTITION, 9)]
    assert (PARTITION, OFFSET_BEGINNING, None) in other.assigned


def test_readers_whose_close_has_no_end_are_not_made_without_end(monkeypatch, ended):
    client, made = Running(), []
    rounds = iter(range(2 * _MOST_CLOSING))

    def replace_often():
        client.stop() if next(rounds, None) is None else client.replace_reader()

    def another(_settings):
        made.append(Consumer([], replace_often, ended))
        return made[-1]

    monkeypatch.setattr("proxy.fleet.log_reader.Consumer", another)
    client.reader = LogReader(client)
    monkeypatch.setattr(client.reader, "close", lambda: None)
    client.reader.run()
    assert len(made) == 1 + _MOST_CLOSING


def test_a_reader_goes_on_if_no_other_can_be_made_now(monkeypatch, ended):
    client, consumed = Running(), []
    ended.set()

    def replace_once():
        consumed.append(None)
        client.stop() if len(consumed) == 2 else client.replace_reader()

    def fails(_settings):
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    monkeypatch.setattr(
        "proxy.fleet.log_reader.Consumer", lambda _settings: Consumer([], replace_once, ended)
    )
    client.reader = LogReader(client)
    monkeypatch.setattr("proxy.fleet.log_reader.Consumer", fails)
    client.reader.run()
    assert len(consumed) == 2


def fails(first):
    def asked(_place, timeout):
        first()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    return asked
