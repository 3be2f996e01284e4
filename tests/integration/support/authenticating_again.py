"""The story of clients that work while their sessions at the broker end and are renewed (KIP-368), again and again."""

from collections.abc import Mapping
from dataclasses import dataclass

from support.broker import Kafka
from support.clients import ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy
from support.ownership import Partition, deliveries
from support.waiting import eventually

TIMES = 3
"""How often each connection authenticates again, on the average."""


def count(metrics: str, name: str, **labels: str) -> float:
    """The sum of a metric's series that have these labels."""
    series = (line for line in metrics.splitlines() if line.startswith(f"epochgate_{name}{{"))
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(float(line.rsplit(" ", 1)[1]) for line in series if all(label in line for label in wanted))


@dataclass(frozen=True)
class Application:
    """Consumers and a producer, with the settings by which each authenticates."""

    consumer: ClientKind
    settings: Mapping[str, object]
    producer: ClientKind
    producer_settings: Mapping[str, object]


class AuthenticatingAgain:
    """Two members and a producer behind a proxy of their own; the topic and the ACLs of topic and group exist."""

    def __init__(self, kafka: Kafka, consumers: Consumers, proxy: Proxy, topic: str, group: str) -> None:
        self._kafka, self._consumers, self._proxy = kafka, consumers, proxy
        self._topic, self._group = topic, group

    def run(self, application: Application, partitions: int) -> None:
        """Work until all have authenticated again several times; then nothing is lost, and no member has rejoined."""
        producer = self._consumers.start(
            application.producer,
            self._proxy.bootstrap,
            "",
            self._topic,
            name="producer",
            only={
                "bootstrap": self._proxy.bootstrap,
                "topic": self._topic,
                "partitions": partitions,
                "own_settings": dict(application.producer_settings),
            },
        )
        members = [
            self._consumers.start(
                application.consumer,
                self._proxy.bootstrap,
                self._group,
                self._topic,
                "range",
                own_settings=dict(application.settings),
            )
            for _ in range(2)
        ]
        share = partitions // len(members)
        self._consumers.wait_until(
            lambda: all(len(one.owned()) == share and one.consumed() for one in members), "both read"
        )
        view = self._kafka.describe(self._group)
        assert view is not None
        assert {member.member_type for member in view.members} == {"consumer"}
        marks = {one: one.mark() for one in self._consumers.all}
        before = self._proxy.metrics()
        self._wait_until_all_have_authenticated(before)
        after = self._proxy.metrics()
        name = "client_to_proxy_disconnects_total"
        assert count(after, name) == count(before, name), "a connection ended"
        for member in members:
            assert member.callbacks(since=marks[member]) == [], "a rebalance"
            assert member.seen("commit_failed", since=marks[member]) == []
        for one in self._consumers.all:
            assert one.seen("error", "failed", since=marks[one]) == []
        now = self._kafka.describe(self._group)
        assert now is not None
        assert {(one.member_id, one.member_epoch) for one in now.members} == {
            (one.member_id, one.member_epoch) for one in view.members
        }, "a rejoin"
        self._nothing_is_lost(producer, members, partitions)

    def _wait_until_all_have_authenticated(self, before: str) -> None:
        name = "client_to_proxy_connections_total"
        connections = count(before, name) - count(before, "client_to_proxy_disconnects_total")

        def again() -> float:
            """SaslHandshakes beyond those of new connections, since the group has settled."""
            now = self._proxy.metrics()
            shakes = count(now, "client_to_proxy_request_total", api_key="SASL_HANDSHAKE") - count(
                before, "client_to_proxy_request_total", api_key="SASL_HANDSHAKE"
            )
            return shakes - (count(now, name) - count(before, name))

        eventually(
            again,
            lambda times: times >= TIMES * connections,
            what=f"{connections:g} connections have authenticated again",
            timeout_s=90,
            between_s=0.5,
        )

    def _nothing_is_lost(
        self, producer: ConsumerProcess, members: list[ConsumerProcess], partitions: int
    ) -> None:
        producer.close()
        sent = producer.seen("closed")[0].fields["sent"]
        self._consumers.wait_until(
            lambda: sum(len(one.consumed()) for one in members) >= sent, "all that was sent is read"
        )
        read = [(one.partition, one.offset) for member in members for one in deliveries(member.events)]
        assert len(read) == len(set(read)) == sent, "each once"
        assert {at for at, _ in read} == {Partition(self._topic, number) for number in range(partitions)}
