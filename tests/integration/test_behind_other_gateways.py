"""What works with Kroxylicious or HAProxy in front of Epochgate or behind it: each row of the how-to's table.

Each test also runs without the other gateway (`epochgate`), and straight at the brokers where that has a meaning
(`direct`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AclOperation, ResourceType
from support.broker import Kafka
from support.clients import CONFLUENT, JAVA
from support.entry import POLICY, Entry, running_proxy
from support.live_group import LiveGroup
from support.load import Load
from support.ownership import Partition
from support.preflight import found, preflight, statuses
from support.secured import Login, allow
from support.share import (
    CONFLUENT_SHARE_CONSUMER,
    SHARE_CONSUMER,
    ShareGroup,
    acknowledged,
    skip_without_share_groups,
)
from support.stacked import Security, Stack, Stacks, Way, cases
from support.story import Case, tell
from support.waiting import eventually

from tests.skips import not_here
from tools.kafka.tls_files import TlsFiles

pytestmark = pytest.mark.kafka

PARTITIONS = 6
RECORDS = 60

everywhere = pytest.mark.parametrize("stack", cases(*Way), indirect=True)
with_epochgate = pytest.mark.parametrize(
    "stack", cases(*(way for way in Way if way is not Way.DIRECT)), indirect=True
)
each_client = pytest.mark.parametrize("client", [CONFLUENT, JAVA], ids=str)


@pytest.fixture(scope="module")
def tls(empty_folder: Callable[[str], Path]) -> TlsFiles:
    return TlsFiles(empty_folder("stacked-tls"))


@pytest.fixture(scope="module")
def stacks(own_kafka_of_module, tls) -> Stacks:
    stacks = Stacks(tls)
    stacks.use(own_kafka_of_module(**stacks.options()))
    return stacks


@pytest.fixture(scope="module")
def kafka(stacks: Stacks) -> Kafka:
    """The brokers, past everything."""
    return Kafka(stacks.cluster.bootstrap, source="stacked", version=stacks.cluster.version)


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest, stacks: Stacks, empty_folder) -> Iterator[Stack]:
    """Plain, without authentication."""
    with stacks.running(request.param, Security.PLAINTEXT, empty_folder(f"stacked-{request.param}")) as stack:
        yield stack


@pytest.fixture
def through(stack: Stack, kafka: Kafka) -> Kafka:
    """The brokers, as clients of this stack see them."""
    return Kafka(stack.bootstrap, source=stack.way, version=kafka.version)


@everywhere
@each_client
def test_members_come_go_and_are_killed(stack: Stack, client, through, folder):
    story = tell(Case(stack.mode, client, "range"), Entry(stack.mode, stack.bootstrap), through, folder)
    assert story.overlaps == []
    assert story.accounting.lost == frozenset()
    if stack.proxy is not None:
        for step in story.steps.values():
            assert {member.member_type for member in step.group.members} == {"consumer"}, step.name


@with_epochgate
@each_client
def test_a_live_group_is_moved_and_moved_back(stack: Stack, client, kafka, through, consumers, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    live = LiveGroup(kafka, consumers, [stack.proxy], group, {topic: PARTITIONS})
    live.entries = [stack.bootstrap]
    live.policy("observe")
    try:
        with Load(through, topic) as load:
            live.loads = [load]
            live.form(client, "range")
            before = live.until_classic()
            marks = live.move("translate")
            assert live.until_consumer_group() == before
            assert live.callbacks(marks) == []
            marks = live.move("observe")
            assert live.callbacks(marks, "lost") == []
            load.stop()
            live.read_up_to_now()
        live.account()
    finally:
        (stack.proxy.folder / "policy.yaml").write_text(POLICY)


@everywhere
@each_client
def test_native_and_classic_members_share_a_group(stack: Stack, client, through, consumers):
    group, topic = Entry(stack.mode, stack.bootstrap).new_group(), through.new_topic(partitions=PARTITIONS)
    native = consumers.start(client, stack.bootstrap, group, topic, group_protocol="consumer")
    classic = consumers.start(CONFLUENT, stack.bootstrap, group, topic, "range")
    consumers.wait_until(
        lambda: [len(one.owned()) for one in (native, classic)] == [3, 3], "each has its share"
    )
    records = {(Partition(topic, one.partition), one.offset) for one in through.produce(topic, RECORDS)}
    consumers.wait_until(lambda: records <= native.consumed() | classic.consumed(), "everything is read")


@everywhere
def test_a_transaction_commits_records_and_offsets(stack: Stack, kafka, through):
    group = Entry(stack.mode, stack.bootstrap).new_group()
    source, target = through.new_topic(partitions=2), through.new_topic(partitions=1)
    through.produce(source, 10)
    producer = Producer({"bootstrap.servers": stack.bootstrap, "transactional.id": f"of-{group}"})
    settings = {
        "bootstrap.servers": stack.bootstrap,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer, reader = (
        Consumer({**settings, "group.id": group}),
        Consumer({**settings, "group.id": f"{group}-reader"}),
    )
    try:
        consumer.subscribe([source])
        read: list[object] = []
        eventually(
            lambda: read.extend(consumer.consume(10, 0.2)), lambda _: len(read) == 10, what="all is read"
        )
        producer.init_transactions(30)
        for word, commits in ((b"aborted", False), (b"committed", True)):
            producer.begin_transaction()
            producer.produce(target, word)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
            )
            if commits:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        reader.subscribe([target])
        values: list[bytes] = []
        eventually(
            lambda: values.extend(one.value() for one in reader.consume(1, 0.2)),
            lambda _: values,
            what="it is read",
        )
        assert values == [b"committed"]
    finally:
        consumer.close()
        reader.close()
    eventually(
        lambda: kafka.committed(group),
        lambda committed: committed == {(source, 0): 5, (source, 1): 5},
        what="the transaction's offsets are there",
    )


@everywhere
def test_admin_tools_see_what_the_brokers_have(stack: Stack, kafka, through, consumers):
    group, topic = Entry(stack.mode, stack.bootstrap).new_group(), through.new_topic(partitions=PARTITIONS)
    through.produce(topic, RECORDS)
    member = consumers.start(CONFLUENT, stack.bootstrap, group, topic, "range", name="described")
    consumers.wait_until(lambda: len(member.consumed()) == RECORDS, "everything is read")
    assert member.commit().kind == "committed"

    brokers = through.admin.list_topics(timeout=30).brokers.values()
    assert {broker.port for broker in brokers} <= stack.ports
    assert {broker.id for broker in brokers} == {1, 2, 3}
    listed = through.admin.list_consumer_groups().result(60)
    assert group in {one.group_id for one in listed.valid}
    assert listed.errors == []
    described = through.admin.describe_consumer_groups([group])[group].result(60)
    assert [one.client_id for one in described.members] == ["described"]
    assert len(described.members[0].assignment.topic_partitions) == PARTITIONS
    assert through.committed(group) == kafka.committed(group) != {}
    assert through.describe(group) == kafka.describe(group)
    member.close()
    eventually(
        lambda: through.admin.delete_consumer_groups([group])[group].exception(60),
        lambda error: error is None,
        what="it is deleted",
    )
    through.admin.delete_topics([topic])[topic].result(60)


@pytest.mark.parametrize("stack", cases(Way.KROXYLICIOUS_BEHIND, Way.HAPROXY_BEHIND), indirect=True)
def test_preflight_finds_the_same_through_the_gateway(stack: Stack):
    def straight_and_through() -> list[tuple[object, ...]]:
        reports = [preflight("--from", bootstrap)[1] for bootstrap in (stack.straight, stack.upstream)]
        return [(statuses(one), found(one).keys(), found(one, unknown=True).keys()) for one in reports]

    # Groups of the tests before may end between the two.
    eventually(straight_and_through, lambda both: both[0] == both[1], what="it finds the same")


@pytest.mark.parametrize("way", cases(*Way))
@pytest.mark.parametrize(
    ("security", "mechanism"),
    [(Security.SASL, "PLAIN"), (Security.SASL_TLS, "SCRAM-SHA-256")],
    ids=["plain", "scram-over-tls"],
)
def test_clients_are_at_the_brokers_who_they_are(
    way: Way, security, mechanism, stacks, kafka, consumers, folder, tls
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    allow(kafka.admin, "alice", ResourceType.TOPIC, topic, AclOperation.READ)
    with stacks.running(way, security, folder) as stack:
        group = Entry(stack.mode, stack.bootstrap).new_group()
        allow(kafka.admin, "alice", ResourceType.GROUP, group, AclOperation.READ)
        login = Login("alice", mechanism, tls.ca if security is Security.SASL_TLS else None)
        members = [
            consumers.start(
                kind, stack.bootstrap, group, topic, "range", own_settings=login.settings(kind.name)
            )
            for kind in (CONFLUENT, JAVA)
        ]
        consumers.wait_until(lambda: [len(one.owned()) for one in members] == [3, 3], "each has its share")
        records = {(Partition(topic, one.partition), one.offset) for one in kafka.produce(topic, RECORDS)}
        consumers.wait_until(
            lambda: records <= members[0].consumed() | members[1].consumed(), "everything is read"
        )
        if stack.proxy is not None:
            assert {member.member_type for member in kafka.describe(group).members} == {"consumer"}


@everywhere
@pytest.mark.parametrize("kind", [SHARE_CONSUMER, CONFLUENT_SHARE_CONSUMER], ids=["java", "librdkafka"])
def test_share_consumers_acknowledge_every_record_once(stack: Stack, kind, kafka, consumers, group):
    skip_without_share_groups(kafka.version)
    if stack.hides_share_groups:
        not_here(f"Kroxylicious {stack.kroxylicious} hides the APIs of share groups")
    topic = kafka.new_topic(partitions=3)
    share = ShareGroup(kafka, stack.bootstrap, consumers, group, topic).configured()
    records = kafka.produce(topic, RECORDS)
    for _ in range(2):
        share.start("explicit", kind)
    consumers.wait_until(lambda: len(acknowledged(consumers.all)) == len(records), "all are acknowledged")
    assert set(acknowledged(consumers.all).values()) == {1}


@pytest.mark.parametrize("stack", cases(Way.KROXYLICIOUS_IN_FRONT, Way.KROXYLICIOUS_BEHIND), indirect=True)
def test_a_share_consumer_hears_that_its_apis_are_hidden(stack: Stack, kafka, consumers, group):
    if not stack.hides_share_groups:
        not_here(f"Kroxylicious {stack.kroxylicious} has the APIs of share groups")
    share = ShareGroup(kafka, stack.bootstrap, consumers, group, kafka.new_topic(partitions=1)).configured()
    failed = share.start("explicit").wait_for("failed")
    assert "The cluster does not support the share group protocol" in failed.fields["error"]


@pytest.mark.parametrize("client", [CONFLUENT, JAVA], ids=str)
@pytest.mark.parametrize(
    ("first", "second"), [("translate", "translate"), ("translate", "observe"), ("observe", "translate")]
)
def test_two_epochgates_in_a_row(first, second, client, kafka, folder):
    """`first` is that to which clients connect."""
    policy = 'default: observe\nrules:\n  - {{pattern: "translate-.*", mode: {mode}}}\n'
    with (
        running_proxy(kafka.bootstrap, folder / "second", policy=policy.format(mode=second)) as behind,
        running_proxy(behind.bootstrap, folder / "first", policy=policy.format(mode=first)) as front,
    ):
        through = Kafka(front.bootstrap, source="two", version=kafka.version)
        story = tell(Case("translate", client, "range"), Entry("translate", front.bootstrap), through, folder)
    assert story.overlaps == []
    assert story.accounting.lost == frozenset()
    for step in story.steps.values():
        assert {member.member_type for member in step.group.members} == {"consumer"}, step.name
