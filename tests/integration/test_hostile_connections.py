"""Strangers who know every id send group calls about members that are not theirs, while real clients work.

What each call comes to at members made by hand is in test_security_matrix.py; here the members are client libraries,
and nothing of what they see may change.
"""

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from kio.schema.errors import ErrorCode
from security_matrix.calls import heartbeat
from security_matrix.matrix import secured_broker
from security_matrix.target import Known, join_group, message
from support.broker import GroupView, Kafka
from support.clients import CONFLUENT, KAFKA_PYTHON
from support.consumers import REBALANCE, ConsumerProcess, Consumers
from support.entry import Proxy, running_proxy
from support.ownership import Partition
from support.raw import PlainLogin, RawConnection
from support.secured import Login, allow, secret
from support.waiting import eventually

from tools.kafka.cluster import Cluster
from tools.kafka.settings import CONSUMER_HEARTBEAT_INTERVAL_MS

pytestmark = pytest.mark.kafka

PARTITIONS = 4
INSTANCE_ID = "machine-1"
OFTEN = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_INTERVAL_MS),
}
SESSION_S = 6.0
LONG_POLL_S = 60.0
ROUNDS = 10
"""How often members read and commit while a call is made that may disturb them only as long as it is under way."""
TROUBLE = ("error", "failed", "died", "commit_failed", *REBALANCE)
ALICE = PlainLogin("alice", secret("alice"))
BOB = PlainLogin("bob", secret("bob"))
STRANGERS = pytest.mark.parametrize("stranger", [None, BOB], ids=["not-authenticated", "without-acl"])
"""Who calls: nobody in particular, and a principal without any ACL."""


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    """Members heartbeat as often as on the other brokers of tests, and so soon share a topic and hear what changes."""
    broker = secured_broker()
    return own_kafka_of_module(**{**broker, "overrides": {**broker["overrides"], **OFTEN}})


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="secured", version=cluster.version)


@pytest.fixture
def proxy(cluster, folder) -> Iterator[Proxy]:
    with running_proxy(cluster.bootstrap_of("SASL"), folder / "proxy") as proxy:
        yield proxy


@dataclass(frozen=True)
class Victims:
    """A translated group of alice's: one client with an instance id and one without, who share a topic and commit."""

    kafka: Kafka
    group: str
    topic: str
    dynamic: ConsumerProcess
    static: ConsumerProcess

    @property
    def both(self) -> tuple[ConsumerProcess, ConsumerProcess]:
        return self.dynamic, self.static

    def at_the_broker(self) -> GroupView:
        view = self.kafka.describe(self.group)
        assert view is not None, "it is no group of the new protocol any more"
        return view

    def known(self, instance_id: str | None) -> Known:
        """What a stranger has found out of the member with this instance id, or without any."""
        (member,) = (one for one in self.at_the_broker().members if one.instance_id == instance_id)
        return Known(member.member_id, member.member_epoch, instance_id)

    def read_on(self) -> None:
        """New records reach them, and they can commit what they have read."""
        new = {
            (Partition(self.topic, one.partition), one.offset)
            for one in self.kafka.produce(self.topic, PARTITIONS)
        }
        eventually(
            lambda: new <= self.dynamic.consumed() | self.static.consumed(),
            what="new records are read",
            timeout_s=20,
        )
        for one in self.both:
            assert one.commit(timeout_s=20).kind == "committed"

    @contextlib.contextmanager
    def undisturbed(self, for_s: float = SESSION_S / 2) -> Iterator[None]:
        """Nothing happens to them, nor in so many seconds afterwards, that they or the broker would notice.

        Half a session has several Heartbeats of each, and assignments of the broker's.
        """
        marks = {one: one.mark() for one in self.both}
        before = self.at_the_broker()
        yield
        until = time.monotonic() + for_s
        while time.monotonic() < until:
            self.read_on()
        for one, mark in marks.items():
            assert one.seen(*TROUBLE, since=mark) == []
        assert self.at_the_broker() == before


@pytest.fixture
def victims(kafka, proxy, consumers) -> Victims:
    return working(kafka, proxy, consumers)


def working(kafka: Kafka, proxy: Proxy, consumers: Consumers, **settings: Any) -> Victims:
    topic = kafka.new_topic(partitions=PARTITIONS)
    group = f"translate-{topic}"
    allow(kafka.admin, "alice", ResourceType.TOPIC, topic, AclOperation.READ)
    allow(kafka.admin, "alice", ResourceType.GROUP, group, AclOperation.READ)
    login = Login("alice", "PLAIN")
    common = {"session_timeout_ms": int(SESSION_S * 1000), "auto_commit": False, **settings}
    dynamic = consumers.start(
        KAFKA_PYTHON, proxy.bootstrap, group, topic, "range", own_settings=login.kafka_python(), **common
    )
    static = consumers.start(
        CONFLUENT,
        proxy.bootstrap,
        group,
        topic,
        "range",
        instance_id=INSTANCE_ID,
        own_settings=login.confluent(),
        **common,
    )
    consumers.wait_until(
        lambda: [len(one.owned()) for one in (dynamic, static)] == [2, 2], "they share the topic"
    )
    found = Victims(kafka, group, topic, dynamic, static)
    found.read_on()
    return found


def answer_to(proxy: Proxy, login: PlainLogin | None, request: Any) -> str:
    """The error code of the answer, or `closed`."""
    with RawConnection(proxy.bootstrap, login=login) as connection:
        try:
            return ErrorCode(connection.call(request).error_code).name
        except ConnectionError:
            return "closed"


@contextlib.contextmanager
def again_and_again(proxy: Proxy, login: PlainLogin | None, request: Any) -> Iterator[list[str]]:
    """The same call all the time, on one connection as long as it is not closed; gives the answers so far."""
    answers: list[str] = []
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            with (
                RawConnection(proxy.bootstrap, login=login) as connection,
                contextlib.suppress(ConnectionError),
            ):
                while not stop.is_set():
                    answers.append("closed")
                    answers[-1] = ErrorCode(connection.call(request).error_code).name

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()


def refusal(login: PlainLogin | None) -> str:
    """What Kafka says to a stranger."""
    return "closed" if login is None else "group_authorization_failed"


# -- strangers -----------------------------------------------------------------------------------------------


@STRANGERS
def test_a_join_group_with_somebodys_instance_id_fences_nobody(victims, proxy, stranger):
    """While the broker is asked, too: so the stranger goes on for as long as the members are watched."""
    request = join_group(victims.group, 5, [victims.topic], instance_id=INSTANCE_ID)
    with victims.undisturbed(), again_and_again(proxy, stranger, request) as answers:
        for _ in range(ROUNDS):
            victims.read_on()
    assert set(answers) == {refusal(stranger)}


@STRANGERS
def test_a_session_timeout_of_1_ms_under_somebodys_member_id_ends_nobody(victims, proxy, stranger):
    who = victims.known(None)
    request = join_group(victims.group, 5, [victims.topic], member_id=who.member_id, session_timeout_ms=1)
    with victims.undisturbed():
        assert answer_to(proxy, stranger, request) == refusal(stranger)


@STRANGERS
@pytest.mark.parametrize("exists", [True, False], ids=["another-topic", "an-unknown-topic"])
def test_topics_under_somebodys_member_id_subscribe_nobody(kafka, victims, proxy, stranger, *, exists):
    topic = kafka.new_topic(partitions=1) if exists else "nowhere"
    who = victims.known(None)
    with victims.undisturbed():
        request = join_group(victims.group, 5, [topic], member_id=who.member_id)
        assert answer_to(proxy, stranger, request) == refusal(stranger)


@STRANGERS
def test_another_protocol_type_does_not_make_a_group_pass_through(kafka, proxy, consumers, stranger):
    """Neither while it is known nor when the proxy has been started again, and hears of it from the stranger first."""
    victims = working(kafka, proxy, consumers, session_timeout_ms=40_000)
    request = join_group(victims.group, 5, [], protocol_type="connect")
    with victims.undisturbed():
        assert answer_to(proxy, stranger, request) == refusal(stranger)
    ids = {one.member_id for one in victims.at_the_broker().members}
    for one in victims.both:
        one.freeze()
    proxy.kill()
    proxy.start()
    assert answer_to(proxy, stranger, request) == refusal(stranger)
    for one in victims.both:
        one.thaw()
    victims.read_on()
    members = victims.at_the_broker().members
    assert {one.member_id for one in members} == ids
    assert {one.member_type for one in members} == {"consumer"}


@STRANGERS
def test_a_generation_can_not_be_guessed(victims, proxy, stranger):
    who = victims.known(None)
    with victims.undisturbed():
        answers = {
            answer_to(proxy, stranger, heartbeat(4, who, victims.group, off_by=by)) for by in (-1, 0, 1)
        }
        assert answers == {refusal(stranger)}


# -- connections on which nothing goes on --------------------------------------------------------------------


def long_poll(topic: str) -> Any:
    """A Fetch at the end of an empty topic, which the broker answers when LONG_POLL_S have passed."""
    end = message("fetch", 11, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    return message(
        "fetch",
        11,
        max_wait=dt.timedelta(seconds=LONG_POLL_S),
        min_bytes=1_000_000,
        topics=(message("fetch", 11, "FetchTopic", topic=topic, partitions=(end,)),),
        forgotten_topics_data=(),
    )


def assert_unanswered(connection: RawConnection) -> None:
    """It has stalled all the time. That the proxy has closed it for that is all right."""
    if connection.has_answer():
        with pytest.raises(ConnectionError):
            connection.receive_frame()


def a_heartbeat_of_the_dynamic_member(victims: Victims) -> Any:
    return heartbeat(4, victims.known(None), victims.group)


def a_join_group_of_the_dynamic_member(victims: Victims) -> Any:
    return join_group(victims.group, 5, [victims.topic], member_id=victims.known(None).member_id)


def a_join_group_with_the_static_members_instance_id(victims: Victims) -> Any:
    return join_group(victims.group, 5, [victims.topic], instance_id=INSTANCE_ID)


def only_versions(_: Victims) -> Any:
    return message("api_versions", 2)


def a_call_that_is_accepted(victims: Victims) -> Any:
    return heartbeat(4, Known("nobody", 1), victims.group)


EACH_ALONE = tuple(
    (before, call)
    for before in (only_versions, a_call_that_is_accepted)
    for call in (
        a_heartbeat_of_the_dynamic_member,
        a_join_group_of_the_dynamic_member,
        a_join_group_with_the_static_members_instance_id,
    )
)
"""What a connection sends before a long poll, and behind it."""


@pytest.mark.parametrize(
    "stalled",
    [
        pytest.param(EACH_ALONE, id="all-at-once"),
        *(
            pytest.param((each,), id="-".join(one.__name__ for one in each), marks=pytest.mark.long)
            for each in EACH_ALONE
        ),
    ],
)
def test_a_call_behind_a_long_poll_holds_up_nobody(kafka, victims, proxy, stalled):
    """The caller may do all of it. Straight at Kafka nothing happens either before the long poll has been answered."""
    empty = kafka.new_topic(partitions=1)
    allow(kafka.admin, "alice", ResourceType.TOPIC, empty, AclOperation.READ)
    with contextlib.ExitStack() as open_until_the_end:
        connections = []
        for before, call in stalled:
            connection = open_until_the_end.enter_context(RawConnection(proxy.bootstrap, login=ALICE))
            connection.call(before(victims))
            connections.append((connection, call(victims)))
        with victims.undisturbed(for_s=2 * SESSION_S):
            for connection, request in connections:
                connection.send(long_poll(empty))
                connection.send(request)
        for connection, _ in connections:
            assert_unanswered(connection)
    victims.read_on()
    proxy.kill()  # stopped, it would wait for the long polls as long as `drain.grace_s` allows
