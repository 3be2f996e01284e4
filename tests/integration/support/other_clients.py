"""More clients that the tests drive, in other languages: what they need, and what the proxy counted of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from support.clients import ClientKind
from support.entry import Proxy
from tests.skips import Need, without
from tools.chart import binaries
from tools.go_clients import built
from tools.node_client import installed

_COUNTED = "epochgate_client_to_proxy_"


def _kafkajs(_log: Path) -> list[str]:
    return _needed(installed.ensure_installed, installed.NoNodeError, installed.command)


def _go(driver: str) -> Callable[[Path], list[str]]:
    return lambda _log: go_command(driver)


def go_command(driver: str) -> list[str]:
    """How to start a program of tools/go_clients, which is built at the first call."""
    return _needed(built.ensure_built, binaries.NoGoError, lambda: built.command(driver))


def _needed(
    prepare: Callable[[], object], unavailable: type[Exception], command: Callable[[], list[str]]
) -> list[str]:
    """Without what the client needs the test is skipped, or fails where there must be one (as in CI)."""
    try:
        prepare()
    except unavailable as reason:
        without(Need.KAFKA, reason)
    return command()


KAFKAJS = ClientKind("kafkajs", ("RoundRobinAssigner",), installed.version, _kafkajs)
FRANZ_GO = ClientKind(
    "franz-go",
    ("cooperative-sticky",),
    lambda: built.version("franzgo"),
    _go("franzgo"),
    new_protocol=True,
)
SARAMA = ClientKind(
    "sarama", ("sticky", "cooperative-sticky"), lambda: built.version("sarama"), _go("sarama")
)
OLD_SARAMA = ClientKind("old sarama", ("sticky",), lambda: built.version("old_sarama"), _go("old_sarama"))
KAFKA_GO = ClientKind("kafka-go", ("rack-affinity",), lambda: built.version("kafkago"), _go("kafkago"))

OTHERS = (KAFKAJS, FRANZ_GO, SARAMA, OLD_SARAMA, KAFKA_GO)


@dataclass(frozen=True)
class Counted:
    """What clients sent to a proxy since it started."""

    versions: dict[str, set[int]]
    """The versions of each API that was used."""
    connections: int

    @classmethod
    def at(cls, proxy: Proxy) -> "Counted":
        """As /metrics has it now."""
        versions: dict[str, set[int]] = {}
        connections = 0
        for family in text_string_to_metric_families(proxy.metrics()):
            for sample in family.samples:
                if sample.name == f"{_COUNTED}request_total" and sample.value:
                    versions.setdefault(sample.labels["api_key"], set()).add(
                        int(sample.labels["api_version"])
                    )
                elif sample.name == f"{_COUNTED}connections_total":
                    connections += int(sample.value)
        return cls(versions, connections)
