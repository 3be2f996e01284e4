"""Starts a broker and a proxy, plays every cell, and keeps what came of it."""

import contextlib
import datetime as dt
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from support.broker import Kafka
from support.certificates import FORMAT_OPTIONS, TOKENS, Client, allow_tokens, certificate_proxy
from support.entry import running_proxy
from support.raw import PlainLogin, RawConnection
from support.raw_new_member import topic_id
from support.secured import BY_COMMON_NAME, mutual_tls, sasl_settings, secret
from support.waiting import eventually

from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.tls_files import TlsFiles

from .callers import CALLERS, OWNER, STRANGER, Caller, set_up_acls
from .calls import CALLS, Call
from .cell import ANSWER_S, CLASSIC, KINDS, NATIVE, TRANSLATED, Outcome, Place, play
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


Connect = Callable[[str | None], RawConnection]


class Way(StrEnum):
    """How members and callers authenticate, on the way straight to Kafka as through the proxy."""

    SASL = "SASL"
    CERTIFICATES = "certificates"
    """By TLS; the proxy's listener has `identity: delegation_token`."""


@dataclass(frozen=True)
class Cell:
    """One call of one caller, straight at Kafka and through the proxy."""

    caller: Caller
    call: Call
    straight: Outcome
    through: Outcome
    way: Way = Way.SASL

    @property
    def equal(self) -> bool:
        """Whether the proxy changes nothing."""
        return self.straight == self.through


def secured_broker(tls: TlsFiles | None = None) -> dict[str, Any]:
    """What makes a `Cluster` one with StandardAuthorizer, a listener SASL, and Kafka's own settings of groups.

    With certificates also one with delegation tokens and a listener MUTUAL_TLS.
    """
    return {
        "listeners": (
            ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings()),
            *(() if tls is None else (mutual_tls(tls),)),
        ),
        "format_options": () if tls is None else FORMAT_OPTIONS,
        "overrides": {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **STOCK,
            **({} if tls is None else TOKENS),
        },
    }


@contextlib.contextmanager
def places(cluster: Cluster, tls: TlsFiles, folder: Path) -> Iterator[dict[Way, dict[str, Place]]]:
    """Where members of each kind connect, on each way, with topics and ACLs; the proxies' files are in `folder`."""
    kafka = Kafka(cluster.bootstrap, source="secured", version=cluster.version)
    names = [name(caller.key) for caller in CALLERS for name in (topic_of, other_topic_of)]
    for name in names:
        kafka.new_topic(name=name, partitions=PARTITIONS)
    set_up_acls(kafka.admin, KINDS)
    _wait_for_transactions(kafka)
    ids = {name: topic_id(kafka, name) for name in names}
    for user in (OWNER, STRANGER):
        allow_tokens(cluster, user)
    by_certificate = _by_certificate(tls)
    sasl, mutual = cluster.bootstrap_of("SASL"), cluster.bootstrap_of("MUTUAL_TLS")

    def places_of(straight: Connect, through: Connect) -> dict[str, Place]:
        connects = {TRANSLATED: through, CLASSIC: straight, NATIVE: straight}
        return {kind: Place(kind, connect, kafka, ids) for kind, connect in connects.items()}

    with (
        running_proxy(sasl, folder / "sasl", limits={}) as one,
        certificate_proxy(
            cluster,
            tls,
            folder / "certificates",
            listener={"principal_mapping_rules": BY_COMMON_NAME},
            limits={},
        ) as other,
    ):
        yield {
            Way.SASL: places_of(_by_sasl(sasl), _by_sasl(one.bootstrap)),
            Way.CERTIFICATES: places_of(by_certificate(mutual), by_certificate(other.bootstrap)),
        }


def _by_sasl(address: str) -> Connect:
    def connect(user: str | None) -> RawConnection:
        login = None if user is None else PlainLogin(user, secret(user))
        return RawConnection(address, timeout_s=ANSWER_S, login=login)

    return connect


def _by_certificate(tls: TlsFiles) -> Callable[[str], Connect]:
    contexts: dict[str | None, ssl.SSLContext] = {}
    for user in (None, OWNER, STRANGER):
        context = ssl.create_default_context(cafile=tls.ca)
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # nothing comes after the handshake but answers
        if user is not None:
            client = Client(tls, user)
            context.load_cert_chain(client.certificate, client.key)
        contexts[user] = context

    def way_to(address: str) -> Connect:
        return lambda user: RawConnection(address, timeout_s=ANSWER_S, tls=contexts[user])

    return way_to


def play_all(
    places_of: Mapping[Way, Mapping[str, Place]], way: Way, calls: Sequence[Call] = CALLS
) -> list[Cell]:
    """Every call of every caller on one way, each at a new group straight and at another one through the proxy."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = [
            (caller, call, [
                pool.submit(
                    play, places_of[way][kind], caller, call, f"{kind}-{caller.key}-{CALLS.index(call)}-{way.lower()}"
                )
                for kind in (call.kind, TRANSLATED)
            ])
            for call in calls
            for caller in CALLERS
        ]  # fmt: skip
        return [Cell(caller, call, *(one.result() for one in both), way) for caller, call, both in started]


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
