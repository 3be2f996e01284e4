"""The process that asks brokers: questions come on standard input, answers go to standard output.

A process of its own, for two reasons. librdkafka 2.16 was seen to abort its process (an assertion of its
``rd_kafka_enq_once``) when of three brokers one was gone and another had stood still for a while. And it holds Python's
lock while it hands over an answer, however many partitions that has.

Nothing is retried here and nothing is kept: it ends when its standard input does.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, OffsetSpec

from proxy.config.fleet import Property
from proxy.groups.lag.messages import (
    AccountRefused,
    Answer,
    AskCommits,
    AskEnds,
    AskGroups,
    AskLeaders,
    AskMembers,
    Begin,
    Commit,
    Commits,
    End,
    Ends,
    Groups,
    Leaders,
    Members,
    Question,
    ToAsker,
)
from proxy.groups.lag.readings import Partition, Unknown, Why
from proxy.runtime import child_process
from translation.members.conversion import is_helper

_WHYS = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: Why.NOT_AUTHORIZED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Why.NOT_AUTHORIZED,
    KafkaError.COORDINATOR_NOT_AVAILABLE: Why.NO_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: Why.NO_COORDINATOR,
    KafkaError.NOT_COORDINATOR: Why.NO_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE: Why.NO_LEADER,
    KafkaError.NOT_LEADER_FOR_PARTITION: Why.NO_LEADER,
    KafkaError.UNKNOWN_TOPIC_OR_PART: Why.NO_TOPIC,
    KafkaError._UNKNOWN_TOPIC: Why.NO_TOPIC,  # noqa: SLF001  that is its public name
    KafkaError._UNKNOWN_PARTITION: Why.NO_TOPIC,  # noqa: SLF001
    KafkaError._TIMED_OUT: Why.NO_ANSWER,  # noqa: SLF001
    KafkaError._TIMED_OUT_QUEUE: Why.NO_ANSWER,  # noqa: SLF001
    KafkaError._TRANSPORT: Why.NO_ANSWER,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT: Why.NO_ANSWER,
}
_ACCOUNT_REFUSED = (
    KafkaError._AUTHENTICATION,  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL,  # noqa: SLF001
)
_POLL_S = 0.2


class Asker:
    """Asks with one account. ``answer`` is called in threads of librdkafka's.

    :raises KafkaException: librdkafka refuses the properties.
    """

    def __init__(
        self, account: dict[str, Property], timeout_s: float, answer: Callable[[Answer], None]
    ) -> None:
        self._timeout_s = timeout_s
        self._answer = answer
        own: dict[str, Any] = {"log_level": 0, "client.id": "epochgate-lag", **account}
        self._admin = AdminClient(own | {"error_cb": self._note_error})

    def poll(self) -> None:
        """Let librdkafka report errors, for a moment."""
        self._admin.poll(_POLL_S)

    def ask(self, question: Question) -> None:
        """Send a question; each of its parts is answered once."""
        match question:
            case AskCommits(groups):
                for group in groups:
                    self._ask_commits(group)
            case AskLeaders(topics):
                self._ask_leaders(topics)
            case AskEnds(leader, partitions):
                self._ask_ends(leader, partitions)
            case AskGroups():
                self._ask_groups()
            case AskMembers(groups):
                self._ask_members(groups)

    def _note_error(self, error: KafkaError) -> None:
        if error.code() in _ACCOUNT_REFUSED:
            self._answer(AccountRefused(error.str()))

    def _ask_commits(self, group: str) -> None:
        def answered(future: Future[Any]) -> None:
            self._answer(Commits(group, _of(future, _commits)))

        try:
            asked = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout_s
            )
        except (KafkaException, ValueError) as error:  # an empty group id, for example
            self._answer(Commits(group, Unknown(Why.REFUSED, str(error))))
            return
        asked[group].add_done_callback(answered)

    def _ask_leaders(self, topics: Iterable[str]) -> None:
        asked = self._admin.describe_topics(TopicCollection([*topics]), request_timeout=self._timeout_s)
        for topic, future in asked.items():
            future.add_done_callback(
                partial(lambda name, done: self._answer(Leaders(name, _of(done, _leaders))), topic)
            )

    def _ask_ends(self, leader: int, partitions: tuple[Partition, ...]) -> None:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(
            {TopicPartition(topic, number): latest for topic, number in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._timeout_s,
        )
        found: list[End] = []

        def answered(partition: Partition, future: Future[Any]) -> None:
            told = _of(future, _end)
            found.append(End(partition, told) if isinstance(told, Unknown) else End(partition, *told))
            if len(found) == len(asked):  # they come together
                self._answer(Ends(leader, tuple(found)))

        for at, future in asked.items():
            future.add_done_callback(partial(answered, Partition(at.topic, at.partition)))

    def _ask_groups(self) -> None:
        def answered(future: Future[Any]) -> None:
            told = _of(future, lambda listed: listed)
            if isinstance(told, Unknown):
                self._answer(Groups((), told))
                return
            errors = [one.args[0] if isinstance(one, KafkaException) else one for one in told.errors or ()]
            missing = unknown(errors[0]) if errors else None
            self._answer(Groups(tuple(one.group_id for one in told.valid or ()), missing))

        self._admin.list_consumer_groups(request_timeout=self._timeout_s).add_done_callback(answered)

    def _ask_members(self, groups: tuple[str, ...]) -> None:
        def answered(group: str, future: Future[Any]) -> None:
            self._answer(Members(group, _of(future, _count_members)))

        asked = self._admin.describe_consumer_groups([*groups], request_timeout=self._timeout_s)
        for group, future in asked.items():
            future.add_done_callback(partial(answered, group))


def unknown(error: KafkaError) -> Unknown:
    """What an error of Kafka's says about what was asked."""
    return Unknown(_WHYS.get(error.code(), Why.REFUSED), error.str())


def _count_members(described: ConsumerGroupDescription) -> int:
    """Without a proxy's helper, as DescribeGroups through the proxy."""
    return sum(not is_helper(member.member_id) for member in described.members)


def _of(future: Future[Any], read: Callable[[Any], Any]) -> Any:
    error = future.exception()
    if error is None:
        return read(future.result())
    if isinstance(error, KafkaException):
        return unknown(error.args[0])
    return Unknown(Why.REFUSED, repr(error))


def _commits(told: Any) -> tuple[Commit, ...]:
    return tuple(
        Commit(
            Partition(one.topic, one.partition),
            one.offset if one.error is None else unknown(one.error),
            one.leader_epoch,
        )
        for one in told.topic_partitions or ()
        if one.error is not None or one.offset >= 0  # -1001: no commit
    )


def _leaders(told: Any) -> tuple[tuple[int, int | None], ...]:
    return tuple(
        (one.id, None if one.leader is None or one.leader.id < 0 else one.leader.id)
        for one in told.partitions
    )


def _end(told: Any) -> tuple[int, int | None] | Unknown:
    if told.offset < 0:  # librdkafka has no error of its own for a leader that did not answer
        return Unknown(Why.NO_ANSWER, "the leader did not answer")
    return (
        told.offset,
        told.leader_epoch if told.leader_epoch is not None and told.leader_epoch >= 0 else None,
    )


def main() -> None:
    """Answer questions until standard input ends."""
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(ToAsker)
    out, lock = sys.stdout.buffer, threading.Lock()

    def answer(message: Answer) -> None:
        line = encoder.encode(message) + b"\n"
        with lock:
            out.write(line)
            out.flush()

    begin = decoder.decode(sys.stdin.buffer.readline())
    assert isinstance(begin, Begin)  # noqa: S101  the first message is that
    try:
        asker = Asker(begin.account, begin.timeout_s, answer)
    except (KafkaException, AttributeError, TypeError, ValueError) as error:
        answer(AccountRefused(error.args[0].str() if isinstance(error, KafkaException) else str(error)))
        return
    threading.Thread(target=_poll, args=(asker,), daemon=True).start()
    for line in sys.stdin.buffer:
        question = decoder.decode(line)
        assert not isinstance(question, Begin)  # noqa: S101
        asker.ask(question)


def _poll(asker: Asker) -> None:
    while True:
        asker.poll()


if __name__ == "__main__":
    child_process.run(main)
