"""Starts a broker and a proxy, plays every cell, and keeps what came of it."""

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.broker import Kafka
from support.entry import running_proxy
from support.raw import RawConnection
from support.raw_new_member import topic_id
from support.secured import sasl_settings
from support.waiting import eventually

from tools.kafka.cluster import Cluster, ExtraListener

from .callers import CALLERS, Caller, set_up_acls
from .calls import CALLS, Call
from .cell import CLASSIC, KINDS, NATIVE, TRANSLATED, Outcome, Place, play
from .target import PARTITIONS, message, other_topic_of, topic_of

AT_ONCE = 64
"""Cells that are played at the same time; most of their time they wait."""

STOCK = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "5000",
}
"""Kafka's own values of what the tests' other brokers have shorter."""


@dataclass(frozen=True)
class Cell:
    """One call of one caller, on both ways."""

    caller: Caller
    call: Call
    straight: Outcome
    through: Outcome

    @property
    def equal(self) -> bool:
        """Whether the proxy changes nothing."""
        return self.straight == self.through


def secured_broker() -> dict[str, Any]:
    """What makes a `Cluster` one with StandardAuthorizer, a listener SASL, and Kafka's own settings of groups."""
    return {
        "listeners": (ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings()),),
        "overrides": {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **STOCK,
        },
    }


@contextlib.contextmanager
def places(cluster: Cluster, folder: Path) -> Iterator[dict[str, Place]]:
    """The three ways to a running broker, with topics and ACLs; the proxy's files are in `folder`."""
    kafka = Kafka(cluster.bootstrap, source="secured", version=cluster.version)
    names = [name(caller.key) for caller in CALLERS for name in (topic_of, other_topic_of)]
    for name in names:
        kafka.new_topic(name=name, partitions=PARTITIONS)
    set_up_acls(kafka.admin, KINDS)
    _wait_for_transactions(kafka)
    ids = {name: topic_id(kafka, name) for name in names}
    sasl = cluster.bootstrap_of("SASL")
    with running_proxy(sasl, folder) as proxy:
        addresses = {TRANSLATED: proxy.bootstrap, CLASSIC: sasl, NATIVE: sasl}
        yield {kind: Place(kind, address, kafka, ids) for kind, address in addresses.items()}


def play_all(
    ways: Mapping[str, Place], callers: Sequence[Caller] = CALLERS, calls: Sequence[Call] = CALLS
) -> list[Cell]:
    """Every call of every caller, each at a new group on each way."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [
            (caller, call, [pool.submit(play, ways[kind], caller, call, f"{kind}-{caller.key}-{CALLS.index(call)}")
             for kind in (call.kind, TRANSLATED)])
            for call in calls
            for caller in callers
        ]  # fmt: skip
        return [Cell(caller, call, *(one.result() for one in both)) for caller, call, both in started]


def _wait_for_transactions(kafka: Kafka) -> None:
    """Until there is a coordinator of transactions, whose topic the first question for it creates."""

    def ask() -> int:
        with RawConnection(kafka.bootstrap) as connection:
            connection.call(message("find_coordinator", 4, key_type=1, coordinator_keys=("warm-up",)))
            begin = message(
                "init_producer_id",
                4,
                transactional_id="warm-up",
                transaction_timeout=dt.timedelta(seconds=60),
            )
            return int(connection.call(begin).error_code)

    eventually(ask, lambda code: code == 0, what="transactions can begin")
