"""The threads of the member log's process: one consumes, one produces, one looks after the topic.

librdkafka does the connections, the account and the idempotent producer. What counts is decided in the proxy by
:class:`translation.member_log.member_log.MemberLog`.
"""

import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from proxy.config.fleet import Fleet, Property
from proxy.member_log.log_messages import (
    Answer,
    Begin,
    Begun,
    Failed,
    Go,
    NoAnswer,
    Refused,
    ReplaceReader,
    ReplaceWriter,
    Reported,
    SetAccount,
    Write,
)
from proxy.member_log.log_reader import LogReader
from proxy.member_log.log_writer import LogWriter
from proxy.member_log.refusals import TopicRefused
from proxy.member_log.topic import TopicIdentity, prepare_topic, when_known
from proxy.member_log.topic_watch import TopicWatch

_MAX_WRITES = 20_000
"""Records that wait for their producer; while there are more, the proxy has to wait."""

_RECONNECTS: Mapping[str, Property] = {"reconnect.backoff.max.ms": 500}
"""librdkafka's own is 10 s, of which after an outage the log would be away for longer than its brokers. The account's
``reconnect.backoff.ms`` may not be more, so whoever sets that sets both."""


class LogThreads:
    """The client of the topic. ``tell`` hands reports to the proxy, ``fail`` ends the process.

    :raises KafkaException: librdkafka refuses the properties.
    """

    def __init__(
        self, begin: Begin, tell: Callable[[list[Reported]], None], fail: Callable[[], None]
    ) -> None:
        self.fleet: Fleet = begin.fleet
        self.tell = tell
        self._fail = fail
        self._begin = begin
        self._writes: deque[Write | ReplaceWriter | SetAccount] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._identity = TopicIdentity("", 0)
        self._admin = self.new_admin()
        self._reader = LogReader(self)

    def new_admin(self) -> AdminClient:
        """Make an admin client of the account."""
        return AdminClient(self.configured({"log_level": 0}))

    def configured(self, settings: Mapping[str, Property]) -> dict[str, Property]:
        """The account's properties and these."""
        account = self._begin.properties
        return {**({} if "reconnect.backoff.ms" in account else _RECONNECTS), **account, **settings}

    def prepare(self) -> Answer:
        """Make the topic, or check that it may be used. It blocks."""
        try:
            prepared = prepare_topic(self._admin, self.fleet)
            self._identity = prepared.identity
            is_new = prepared.identity.topic_id != self._begin.topic_id
            ends = when_known(self._reader.ends) if is_new else {}
        except TopicRefused as refused:
            return Refused(str(refused))
        except KafkaException as error:
            return NoAnswer(error.args[0].str())
        except TimeoutError:
            return NoAnswer("no answer in time")
        return Begun(prepared.identity.topic_id, ends, prepared.wrong)

    def start(self, go: Go) -> None:
        """Start to read and to write."""
        self._reader.begin_at(go.positions)
        writer = LogWriter(self, go.writer, self._begin.replica)
        watch = TopicWatch(self, self._admin, self._identity)
        for name, work in (("reader", self._reader.run), ("writer", writer.run), ("topic", watch.run)):
            self._threads.append(
                threading.Thread(target=self._guarded, args=(work,), name=f"fleet-{name}", daemon=True)
            )
            self._threads[-1].start()

    def take(self, order: Write | ReplaceWriter | ReplaceReader | SetAccount) -> None:
        """Do what the proxy says; it blocks while too much waits to be written."""
        if isinstance(order, ReplaceReader):
            self._reader.replace()
            return
        if isinstance(order, SetAccount) and not self._change_account(order):
            return
        with self._changed:
            self._changed.wait_for(lambda: len(self._writes) < _MAX_WRITES or self.is_stopping)
            self._writes.append(order)
            self._changed.notify_all()

    def _change_account(self, new: SetAccount) -> bool:
        """Use it for clients that are made from now on; return whether it is another one.

        The reader is replaced: confluent-kafka 2.16 stands still for good if a consumer gets other credentials while
        another thread polls it. The producer gets them in its own thread. The topic's watch makes another client when
        brokers refuse the one that it has.
        """
        account = {"sasl.username": new.username, "sasl.password": new.password}
        if account.items() <= self._begin.properties.items():
            return False
        self._begin = replace(self._begin, properties={**self._begin.properties, **account})
        self._reader.replace()
        return True

    def stop(self, timeout_s: float) -> None:
        """Write what is queued, and wait for the threads, for ``timeout_s`` at most each."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            if not thread.name.endswith("topic"):  # it writes nothing, and may wait for a broker
                thread.join(timeout_s)

    # -- in the threads ----------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  whatever it is: the process ends with it, and another one begins
            traceback.print_exc()
            reason = error.args[0].str() if isinstance(error, KafkaException) else repr(error)
            self.tell([Failed(f"{threading.current_thread().name}: {reason}")])
            self._fail()

    @property
    def is_stopping(self) -> bool:
        """Whether the threads are to end."""
        return self._stopping.is_set()

    def pause(self, seconds: float) -> bool:
        """Let a thread wait; return whether it is to end."""
        return self._stopping.wait(seconds)

    def next_writes(self, wait_s: float) -> list[Write | ReplaceWriter | SetAccount]:
        """Wait a moment for something to be written, and return it."""
        with self._changed:
            self._changed.wait_for(lambda: self._writes or self.is_stopping, wait_s)
            taken = [self._writes.popleft() for _ in range(len(self._writes))]
            self._changed.notify_all()
        return taken
