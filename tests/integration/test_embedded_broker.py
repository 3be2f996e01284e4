"""Unmodified clients of both protocols consume from the embedded broker directly, without the proxy."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.clients import CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.embedded import Embedded
from support.find_broker import wanted_version
from support.ownership import Partition, overlaps
from support.waiting import eventually

from tests.skips import Need, without
from tools.java_client import compiled
from tools.kafka import jars

NODES = 3
PARTITIONS = 6
A_FEW = 30


@dataclass(frozen=True)
class Client:
    """A kind of client with its protocol and its assignor, a server-side one in the new protocol."""

    kind: ClientKind
    protocol: str
    assignor: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.protocol}-{self.assignor}"


CLIENTS = [
    Client(CONFLUENT, "consumer", "uniform"),
    Client(JAVA, "consumer", "uniform"),
    Client(JAVA, "consumer", "range"),
    Client(CONFLUENT, "classic", "range"),
    Client(CONFLUENT, "classic", COOPERATIVE),
    Client(KAFKA_PYTHON, "classic", "sticky"),
    Client(JAVA, "classic", COOPERATIVE),
]
MOVED = [CLIENTS[0], CLIENTS[1], CLIENTS[3], CLIENTS[5], CLIENTS[6]]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    with Embedded(nodes=NODES) as broker:
        yield broker


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Client:
    wanted: Client = request.param
    if wanted.kind is JAVA:
        try:
            compiled.ensure_compiled(wanted_version())
        except jars.KafkaUnavailableError as reason:
            without(Need.KAFKA, f"no Java client: {reason}")
    return wanted


class Members:
    """The consumers of one test, in one group that reads one topic."""

    def __init__(self, embedded: Embedded, consumers: Consumers, client: Client, group: str) -> None:
        self.embedded = embedded
        self.consumers = consumers
        self.client = client
        self.group = group
        self.topic = embedded.new_topic(partitions=PARTITIONS)
        self.all = frozenset(Partition(self.topic, number) for number in range(PARTITIONS))

    def start(self) -> ConsumerProcess:
        return self.consumers.start(
            self.client.kind,
            self.embedded.bootstrap,
            self.group,
            self.topic,
            self.client.assignor,
            group_protocol=self.client.protocol,
            auto_commit=False,
        )

    def produce(self) -> set[tuple[Partition, int]]:
        written = self.embedded.produce(self.topic, A_FEW)
        return {(Partition(self.topic, record.partition), record.offset) for record in written}

    def wait_until_read(self, records: set[tuple[Partition, int]], *readers: ConsumerProcess) -> None:
        self.consumers.wait_until(
            lambda: set().union(*(reader.consumed() for reader in readers)) >= records,
            "everything is read",
        )

    def wait_until_shared(self, *members: ConsumerProcess) -> None:
        """All members have something, everything has one owner, and the coordinator has come to rest."""

        def is_shared() -> bool:
            owned = [member.owned() for member in members]
            return (
                all(owned) and frozenset().union(*owned) == self.all and sum(map(len, owned)) == len(self.all)
            )

        self.consumers.wait_until(is_shared, f"{len(members)} share all partitions")
        eventually(self.state, lambda state: state == "Stable", what="the group is stable")

    def state(self) -> str | None:
        if self.client.protocol == "classic":
            return self.embedded.describe_classic(self.group).group_state
        group = self.embedded.describe(self.group)
        return None if group is None else group.state


@pytest.fixture
def members(embedded: Embedded, consumers: Consumers, client: Client, group: str) -> Members:
    return Members(embedded, consumers, client, group)


@pytest.mark.parametrize("client", CLIENTS, ids=str, indirect=True)
def test_join_share_commit_and_resume(members: Members):
    old = members.produce()
    first = members.start()
    members.wait_until_read(old, first)
    second = members.start()
    members.wait_until_shared(first, second)
    # Without a commit, a partition that moved is read again from its beginning.
    new = members.produce()
    members.wait_until_read(new, first, second)

    assert first.commit().kind == "committed"
    assert second.commit().kind == "committed"
    second.close()
    members.wait_until_shared(first)
    first.close()
    assert overlaps(members.consumers.logs) == []
    ends = dict.fromkeys(members.all, 0) | {at: offset + 1 for at, offset in sorted(new)}
    committed = members.embedded.committed(members.group)
    assert {Partition(*at): offset for at, offset in committed.items()} == ends

    newest = members.produce()
    again = members.start()
    members.wait_until_read(newest, again)
    assert again.consumed() == newest
    again.close()


@pytest.mark.parametrize("client", MOVED, ids=str, indirect=True)
def test_the_coordinator_moves_to_another_node(members: Members):
    """Who owns partitions may still ask for their committed offsets. librdkafka does not ask again when that question
    meets a coordinator that has moved, and never reads them (docs/evidence/facts.md). So both have read from all of
    theirs before it moves."""
    first, second = members.start(), members.start()
    members.wait_until_shared(first, second)
    members.wait_until_read(members.produce(), first, second)
    owned = first.owned(), second.owned()
    marks = first.mark(), second.mark()

    node = members.embedded.move_coordinator(members.group)

    records = members.produce()
    members.wait_until_read(records, first, second)
    assert first.commit().kind == "committed"
    assert second.commit().kind == "committed"
    assert members.embedded.coordinator_of(members.group) == node
    assert (first.owned(), second.owned()) == owned
    assert [first.callbacks(since=marks[0]), second.callbacks(since=marks[1])] == [[], []]
    second.close()
    members.wait_until_shared(first)
    assert overlaps(members.consumers.logs) == []
    first.close()
