"""What the threads of the log's process make of what librdkafka gives them, without a broker."""

import threading
import time

import pytest
import trio
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from proxy.config.fleet import Fleet
from proxy.member_log.log_client import LogClient
from proxy.member_log.log_events import (
    AccessLost,
    EndReached,
    PartitionLost,
    RecordIgnored,
    RecordRead,
    RecordUnknown,
    WriteFailed,
)
from proxy.member_log.log_messages import MAX_PART_BYTES, ORDERS, Begin, Go, Record, SetAccount, Write
from proxy.member_log.log_reader import _MOST_CLOSING, LogReader
from proxy.member_log.log_threads import LogThreads
from proxy.member_log.log_writer import _OLD_S, LogWriter
from proxy.member_log.topic import access_hint, create_command, required_settings
from proxy.runtime.kafka_process import ProcessEnded
from tests.translation.member_log.test_formats import plant_second_format
from translation.member_log.formats import DEFAULT_FORMAT, FORMAT_HEADER, FORMATS
from translation.member_log.records import (
    Ignored,
    Kind,
    MemberRecord,
    Writer,
    encode_key,
    encode_value,
    member_key,
    partition_of,
)
from translation.member_log.replicas import REPLICA_HEADER

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


def handed_on(report):
    """What the proxy makes of a report of the process."""
    return LogClient(FLEET, {}, lambda _events: None)._event(report)


def read(message):
    """What a message is in the proxy, or why the process sends no record of it."""
    report = reader()._event(message)
    return handed_on(report) if isinstance(report, Record) else report


def reader():
    made = LogReader.__new__(LogReader)
    made._client, made._topic = Client(), FLEET.topic
    made._positions, made._epochs = dict.fromkeys(range(16), OFFSET_BEGINNING), {}
    return made


def test_a_record_is_read_with_its_place():
    event = read(Message())
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
    """A record whose header has a name that is not UTF-8, or what else librdkafka's binding fails on."""

    def __init__(self, offset, error):
        super().__init__(offset)
        self._error_of_headers = error

    def headers(self):
        raise self._error_of_headers


def test_what_is_none_of_the_log_is_named_and_only_moves_the_position():
    """As a ``kafka-console-producer`` would write it, or somebody who means harm; the thread goes on reading."""
    one = reader()
    bad = (
        Message(5, key=b"\xff", headers=None),
        Message(6, key=b"\x93\xa1\xff\xa1m\xc4\x01w"),
        Message(7, value=b"\x81\xa1x" + b"\x91" * 3_000),
        BadHeaders(8, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")),
        BadHeaders(9, SystemError()),
        Message(10, key=None),
        Message(11, key=b"x" * (MAX_PART_BYTES + 1)),
        Message(12, value=b"x" * (MAX_PART_BYTES + 1)),
    )
    events = [handed_on(one._event(message)) for message in bad]
    assert [(event.partition, event.offset) for event in events] == [
        (PARTITION, offset) for offset in range(5, 13)
    ]
    assert [event.reason for event in events] == [
        Ignored.FORMAT, Ignored.KEY, Ignored.VALUE, Ignored.FORMAT,
        Ignored.FORMAT, Ignored.KEY, Ignored.KEY, Ignored.VALUE,
    ]  # fmt: skip
    assert isinstance(handed_on(one._event(Message(13))), RecordRead)


def test_a_key_or_value_that_is_too_long_does_not_leave_the_process():
    long = b"x" * (MAX_PART_BYTES + 1)
    assert reader()._event(Message(key=long)).key is None
    assert reader()._event(Message(value=long)).value is None
    assert reader()._event(Message(value=long[1:])).value == long[1:]


def test_a_record_that_meets_a_bug_in_its_decoder_is_named_and_the_client_goes_on(monkeypatch):
    def fails(_data):
        raise ValueError("a bug")

    monkeypatch.setattr("proxy.member_log.record_decoding.decode_key", fails)
    event = read(Message(5))
    assert isinstance(event, RecordIgnored)
    assert (event.offset, event.reason, event.why) == (5, Ignored.ERROR, "ValueError('a bug')")


def test_how_far_a_partition_is_read_is_kept_also_past_what_is_none_of_the_log():
    client = LogClient(FLEET, {}, lambda _events: None)
    one = reader()
    client._event(one._event(Message(5, epoch=3)))
    client._event(one._event(Message(6, key=b"junk", epoch=4)))
    assert client._positions == {PARTITION: (7, 4)}


def test_a_timestamp_that_is_not_the_brokers_is_named():
    class Early(Message):
        def timestamp(self):
            return 1, 1_000

    assert read(Early()).reason is Ignored.TIME


def test_a_record_of_a_later_format_stands_for_the_end_of_its_member():
    event = read(Message(value=b"junk", headers=[(FORMAT_HEADER, b"\x63")]))
    assert isinstance(event, RecordUnknown)
    assert (event.key, event.stored.record.kind) == (KEY, Kind.ENDED)


def test_a_header_that_is_not_known_does_not_matter():
    event = read(Message(headers=[("trace", b"x"), (FORMAT_HEADER, FORMAT), ("cell", None)]))
    assert isinstance(event, RecordRead)


def test_a_record_is_read_in_its_own_format(monkeypatch):
    second = plant_second_format(monkeypatch)
    message = Message(value=second.encode(RECORD), headers=[(FORMAT_HEADER, second.header)])
    event = read(message)
    assert isinstance(event, RecordRead)
    assert event.stored is not None
    assert event.stored.record == RECORD


class Producer:
    """Takes what is produced, and fails with the errors it is given."""

    def __init__(self, *errors):
        self.headers = []
        self.errors = errors

    def produce(self, _topic, *, on_delivery, **record):
        self.headers.append(record["headers"])
        for error in self.errors:
            on_delivery(KafkaError(error), None)


def writer(monkeypatch, producer):
    monkeypatch.setattr(LogWriter, "_new_producer", lambda _self: producer)
    client = Running()
    return LogWriter(client, WRITER, b"replica"), client.told


def test_a_failed_write_is_told_once_with_its_reason(monkeypatch):
    one, told = writer(monkeypatch, Producer(KafkaError._MSG_TIMED_OUT, KafkaError._MSG_TIMED_OUT))
    one._take(Write(time.monotonic(), WRITER, 3, KEY_BYTES, VALUE_BYTES, FORMAT))
    assert told == [WriteFailed(WRITER, KafkaError(KafkaError._MSG_TIMED_OUT).str())]


def test_a_right_to_write_that_is_missing_is_told_with_the_command_that_gives_it(monkeypatch):
    one, (told) = writer(monkeypatch, Producer(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    one._take(Write(time.monotonic(), WRITER, 3, KEY_BYTES, VALUE_BYTES, FORMAT))
    (lost,) = told
    assert isinstance(lost, AccessLost)
    assert access_hint(FLEET) in lost.reason


def test_what_waited_too_long_is_not_written(monkeypatch):
    producer = Producer()
    one, told = writer(monkeypatch, producer)
    one._take(Write(time.monotonic() - _OLD_S - 1, WRITER, 3, KEY_BYTES, VALUE_BYTES, FORMAT))
    assert told == [WriteFailed(WRITER, "this process stood still")]
    assert producer.headers == []


def test_each_record_has_the_header_of_its_format_and_a_probe_names_the_replica(monkeypatch):
    producer = Producer()
    one, _ = writer(monkeypatch, producer)
    for value in (VALUE_BYTES, None):
        one._take(Write(time.monotonic(), WRITER, 3, KEY_BYTES, value, b"\x02"))
    assert producer.headers == [
        {FORMAT_HEADER: b"\x02"},
        {FORMAT_HEADER: b"\x02", REPLICA_HEADER: b"replica"},
    ]


def test_the_end_of_a_partition():
    assert read(Message(9, error=KafkaError._PARTITION_EOF)) == EndReached(PARTITION, 9)


def test_a_right_that_is_missing_is_told_with_the_command_that_gives_it():
    event = read(Message(error=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert isinstance(event, AccessLost)
    assert access_hint(FLEET) in event.reason


def test_a_right_on_the_group_is_not_needed():
    assert read(Message(error=KafkaError.GROUP_AUTHORIZATION_FAILED)) is None


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

    def poll(self, _seconds):
        if self._messages:
            return self._messages.pop(0)
        self._then()
        return None

    def consume(self, _count, _seconds):
        given, self._messages = self._messages, []
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
    monkeypatch.setattr("proxy.member_log.log_reader.Consumer", lambda _settings: next(made))
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
    monkeypatch.setattr("proxy.member_log.log_reader.Consumer", lambda _settings: next(made))
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

    monkeypatch.setattr("proxy.member_log.log_reader.Consumer", another)
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
        "proxy.member_log.log_reader.Consumer", lambda _settings: Consumer([], replace_once, ended)
    )
    client.reader = LogReader(client)
    monkeypatch.setattr("proxy.member_log.log_reader.Consumer", fails)
    client.reader.run()
    assert len(consumed) == 2


def fails(first):
    def asked(_place, timeout):
        first()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    return asked


# -- the properties of librdkafka --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("account", "longest_ms"),
    [({}, 500), ({"reconnect.backoff.max.ms": 5_000}, 5_000), ({"reconnect.backoff.ms": 2_000}, None)],
)
def test_brokers_that_are_back_are_dialled_soon_unless_the_account_says_otherwise(account, longest_ms):
    properties = {"bootstrap.servers": "127.0.0.1:1", **account}
    begin = Begin(Fleet(kafka=properties), properties, b"", None)
    threads = LogThreads(begin, lambda _reports: None, lambda: None)
    assert threads.configured({}).get("reconnect.backoff.max.ms") == longest_ms


# -- another account ---------------------------------------------------------------------------------------------------

ACCOUNT = {"bootstrap.servers": "127.0.0.1:1", "sasl.username": "gate", "sasl.password": "first"}
SECOND = SetAccount("gate", "second")


def test_another_password_is_for_the_producer_and_for_all_clients_that_are_made_from_now_on():
    threads = LogThreads(Begin(Fleet(kafka=ACCOUNT), ACCOUNT, b"", None), lambda _: None, lambda: None)
    threads.take(SetAccount("gate", "first"))
    assert threads.next_writes(0) == [], "nothing has changed"
    assert not threads._reader._is_to_be_replaced.is_set()
    threads.take(SECOND)
    assert threads.configured({})["sasl.password"] == "second"
    assert threads._reader._is_to_be_replaced.is_set()
    assert threads.next_writes(0) == [SECOND]


def test_the_producer_gets_them_and_gives_up_nothing(monkeypatch):
    producer, given = Producer(), []
    producer.set_sasl_credentials = lambda *account: given.append(account)
    one, told = writer(monkeypatch, producer)
    one._take(SECOND)
    assert given == [("gate", "second")]
    assert one._producer is producer
    assert told == []


class Process:
    """Keeps what it is sent, and ends when it is to say something."""

    def __init__(self):
        self.orders = []
        self.closed = False

    async def send(self, message):
        self.orders += ORDERS.decode(message)

    async def receive_message(self, _decoder):
        while not self.orders:
            await trio.lowlevel.checkpoint()
        raise ProcessEnded("it has ended")

    async def close(self):
        self.closed = True


async def test_a_process_that_began_by_the_account_before_gets_the_one_of_now():
    client = LogClient(FLEET, ACCOUNT, lambda _events: None)
    client._process = Process()
    client.set_account({**ACCOUNT, "sasl.password": "second"})
    client.begin_with("id")
    client.replace_writer()
    await client.serve()
    assert [type(order) for order in client._process.orders] == [SetAccount, Go]
    assert client._process.orders[0] == SECOND


def test_a_process_that_works_is_told_of_another_account_and_one_without_sasl_of_none():
    client = LogClient(FLEET, ACCOUNT, lambda _events: None)
    client.begin_with("id")
    client.set_account({**ACCOUNT, "sasl.password": "second"})
    assert client._unsent == [SECOND]
    client = LogClient(FLEET, dict(FLEET.kafka), lambda _events: None)
    client.begin_with("id")
    client.set_account(dict(FLEET.kafka))
    assert client._unsent == []
