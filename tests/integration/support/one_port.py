"""Clients of five libraries in one translated group, all at one address."""

from pathlib import Path

from support.certificates import Client
from support.clients import CONFLUENT, JAVA, KAFKA_PYTHON, ClientKind
from support.library_uses import Uses, read_of_clients
from support.live_group import LiveGroup
from support.load import Load
from support.other_clients import FRANZ_GO, KAFKAJS
from tools.kafka.tls_files import TlsFiles

BOOTSTRAP = "kafka.epochgate.test"
TEMPLATE = f"b{{node}}.{BOOTSTRAP}"
NODES = (1, 2, 3)
NAMES = (BOOTSTRAP, *(TEMPLATE.replace("{node}", str(node)) for node in NODES))
CERTIFIED = (BOOTSTRAP, f"*.{BOOTSTRAP}")
"""The names of the proxy's certificate."""
PARTITIONS = 9
ASSIGNORS: dict[ClientKind, str] = {
    CONFLUENT: "range",
    JAVA: "range",
    KAFKA_PYTHON: "range",
    FRANZ_GO: "cooperative-sticky",
    KAFKAJS: "RoundRobinAssigner",
}
PRODUCERS = (CONFLUENT, JAVA, KAFKA_PYTHON, FRANZ_GO)
"""Whose drivers can produce too."""


def run_clients(live: LiveGroup, bootstrap: str, tls: TlsFiles, folder: Path) -> None:
    """All join, produce, commit, and read what is produced meanwhile; the group has one topic on all brokers."""
    ((topic, _),) = live.topics.items()
    kafka, consumers = live.kafka, live.consumers
    clients = {kind: Client(tls, str(kind)) for kind in ASSIGNORS}
    with Load(kafka, topic) as load:
        live.loads = [load]
        for kind, assignor in ASSIGNORS.items():
            settings = clients[kind].settings(kind.name)
            live.members.append(
                consumers.start(kind, bootstrap, live.group, topic, assignor, own_settings=settings)
            )
        live.until_shared()
        live.until_consumer_group()
        for member in live.members:
            if member.kind in PRODUCERS:
                Uses(member, clients[member.kind], topic, live.group, kafka.version, folder).produce(
                    bootstrap
                )
        for member in live.members:
            assert member.commit().kind == "committed"
        live.read_up_to_now()
    consumers.wait_until(
        lambda: len(read_of_clients(live)) == len(PRODUCERS), "what the clients produced is read"
    )
    live.read_up_to_now()
    live.account()
