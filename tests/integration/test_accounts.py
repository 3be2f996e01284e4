"""The accounts that the proxy itself uses are exchanged while it works: a rotated password, and another user."""

import time
from collections.abc import Iterator
from functools import partial

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from msgspec.structs import replace
from support.authenticating_again import count
from support.broker import Kafka
from support.certificates import (
    FORMAT_OPTIONS,
    GATE,
    Client,
    allow_tokens,
    certificate_proxy,
    cluster_with_tokens,
    token_owners,
)
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess
from support.entry import Proxy, running_proxy
from support.ownership import Partition, deliveries
from support.secured import TlsFiles, allow, sasl_settings, secret
from support.waiting import eventually
from test_fleet import elsewhere, metric, shown
from test_journal_account import read

from proxy.config.schema import Address
from proxy.identity.account_connections import AccountError
from proxy.identity.credentials import Credentials
from proxy.identity.token_account import TokenAccount
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Dialer
from proxy.transport.node_table import NodeTable
from tools.kafka.cluster import Cluster, ExtraListener

pytestmark = pytest.mark.kafka

MEMBERS = 20
SESSION_S = 4
LOGGER, OTHER_GATE = "logger", "gate-2"
NEW = "another-secret"


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    sasl = sasl_settings(reauthentication_ms=SESSION_S * 1000)
    scram = [f"SCRAM-SHA-512=[name={user},password={secret(user)}]" for user in (LOGGER, OTHER_GATE)]
    more = (part for user in scram for part in ("--add-scram", user))
    return own_kafka_of_module(
        **cluster_with_tokens(
            listeners=(ExtraListener("SASL", "SASL_PLAINTEXT", sasl),),
            format_options=(*FORMAT_OPTIONS, *more),
        )
    )


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="accounts", version=cluster.version)


def set_password(admin: AdminClient, user: str, password: str) -> None:
    """Sessions that exist go on until they end; whoever authenticates from now on needs this one."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin.alter_user_scram_credentials([change])[user].result(30)


def reloads(proxy: Proxy, where: str) -> float:
    return count(proxy.metrics(), "tls_reloads_total", where=where, result="applied")


def wait_until_reloaded(proxy: Proxy, where: str) -> None:
    eventually(lambda: reloads(proxy, where), lambda n: n == 1, what="the file is read again", timeout_s=20)


def all_is_read(members: list[ConsumerProcess], records: int) -> bool:
    return sum(len(one.consumed()) for one in members) == records


@pytest.fixture
def fleet(kafka, cluster, folder, group) -> dict[str, object]:
    topics = [f"members-{group}", f"journal-{group}"]
    rights = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS
    for topic in topics:
        allow(kafka.admin, LOGGER, ResourceType.TOPIC, topic, *rights)
    (folder / "password").write_text(f"{secret(LOGGER)}\n")
    return {
        "topic": topics[0],
        "partitions": 4,
        "replication": 1,
        "expires": True,
        "kafka": {
            "bootstrap.servers": cluster.bootstrap_of("SASL"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": LOGGER,
        },
        "kafka_files": {"sasl.password": str(folder / "password")},
    }


@pytest.fixture
def proxy(cluster, fleet, folder, group) -> Iterator[Proxy]:
    journal = {"topic": f"journal-{group}"}
    with running_proxy(cluster.bootstrap, folder / "proxy", fleet=fleet, journal=journal) as running:
        yield running


def test_a_rotated_password_of_the_member_log_costs_no_record_and_no_member(
    kafka, cluster, proxy, consumers, folder, group, fleet
):
    topic = kafka.new_topic(partitions=2 * (MEMBERS + 1))
    group_id = f"translate-{group}"
    allow(kafka.admin, LOGGER, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    allow(kafka.admin, LOGGER, ResourceType.GROUP, group_id, AclOperation.DESCRIBE)
    members = [consumers.start(CONFLUENT, proxy.bootstrap, group_id, topic, "range") for _ in range(MEMBERS)]

    def all_have_their_share() -> bool:
        shares = [len(one.owned()) for one in members]
        return sum(shares) == 2 * (MEMBERS + 1) and max(shares) - min(shares) <= 1

    consumers.wait_until(all_have_their_share, "all have their share")
    marks = [one.mark() for one in members]
    written = kafka.produce(topic, 60)
    members[0].commit()
    eventually(lambda: proxy.group(group_id)["lag"], lambda lag: lag is not None, what="lag is read")

    set_password(kafka.admin, LOGGER, NEW)
    (folder / "password").write_text(f"{NEW}\n")
    wait_until_reloaded(proxy, "fleet.kafka")
    over = time.monotonic() + 3 * SESSION_S
    while time.monotonic() < over:  # every session of before has ended
        written += kafka.produce(topic, 6)
        consumers.wait_until(partial(all_is_read, members, len(written)), "all is read")
    assert not any(one.callbacks(since=mark) for one, mark in zip(members, marks, strict=True))

    members.append(consumers.start(CONFLUENT, proxy.bootstrap, group_id, topic, "range"))
    consumers.wait_until(all_have_their_share, "another one joins")
    written += kafka.produce(topic, 60)
    expected = {(Partition(topic, one.partition), one.offset) for one in written}
    consumers.wait_until(
        lambda: expected == set().union(*(one.consumed() for one in members)), "everything is read"
    )
    read_by = [(at.partition, at.offset) for one in members for at in deliveries(one.events)]
    assert len(read_by) == len(expected), "each once"
    with running_proxy(cluster.bootstrap, folder / "other", fleet=fleet, sole_process=False) as other:
        eventually(
            lambda: len(elsewhere(shown(other), group_id)),
            lambda n: n == MEMBERS + 1,
            what="another replica reads the records of all",
            timeout_s=20,
        )
    assert (
        metric(proxy, "epochgate_fleet_log_away") == metric(proxy, "epochgate_fleet_unresolved_records") == 0
    )
    said = proxy.log.read_text()
    assert "the process that reads lag is replaced" in said
    eventually(lambda: proxy.group(group_id)["lag"], lambda lag: lag is not None, what="lag is read again")
    for trouble in ("writing the member log failed", "can't be used", "read again: the topic", "has ended"):
        assert trouble not in said
    assert NEW not in said
    proxy.stop()
    sequence = sorted(event.seq for *_, event in read(cluster.bootstrap, f"journal-{group}"))
    assert sequence == list(range(1, len(sequence) + 1))
    assert len(sequence) > 10


def test_a_rotated_password_of_the_token_account(kafka, cluster, consumers, folder):
    tls = TlsFiles(folder / "tls")
    alice, bob = Client(tls, "alice"), Client(tls, "bob")
    topic = kafka.new_topic(partitions=2)
    for one in (alice, bob):
        allow_tokens(cluster, one.principal)
        allow(kafka.admin, one.principal, ResourceType.TOPIC, topic, AclOperation.WRITE)
    with certificate_proxy(cluster, tls, folder / "proxy") as proxy:
        with_token = producer(proxy, alice)
        produce(with_token, topic)
        set_password(kafka.admin, GATE, NEW)
        (folder / "proxy" / "password").write_text(NEW)
        wait_until_reloaded(proxy, "identity.account")
        produce(producer(proxy, bob), topic)
        produce(with_token, topic)
        assert sorted(token_owners(cluster)) == sorted([alice.principal, bob.principal])
        assert count(proxy.metrics(), "identity_tokens_total", result="failed") == 0
    eventually(lambda: token_owners(cluster), lambda left: left == [], what="both tokens are expired")


def producer(proxy: Proxy, client: Client) -> Producer:
    return Producer(
        {"bootstrap.servers": proxy.bootstrap, "message.timeout.ms": 15_000, **client.confluent()}
    )


def produce(producer: Producer, topic: str) -> None:
    failed: list[object] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(20) == 0
    assert failed == []


async def test_the_user_that_is_a_tokens_renewer_expires_it_and_no_other_may(kafka, cluster):
    def credentials(user: str) -> Credentials:
        return Credentials("SCRAM-SHA-512", user, secret(user))

    def account(user: str) -> TokenAccount:
        address = Address.parse(cluster.bootstrap_of("SASL").split(",")[0])
        dial = partial(Dialer([address], NodeTable(), 5.0, Metrics()).dial, None)
        return TokenAccount(dial, credentials(user), "SCRAM-SHA-256", 600_000, trio.current_time)

    def until_left(count: int) -> None:
        expected = ["CN=carol"] * count
        eventually(
            lambda: token_owners(cluster), lambda left: left == expected, what=f"{count} tokens are left"
        )

    await trio.to_thread.run_sync(lambda: allow_tokens(cluster, "CN=carol"))
    set_password(kafka.admin, GATE, secret(GATE))
    exchanged, stranger = account(GATE), account(OTHER_GATE)
    tokens = [await exchanged.create("CN=carol") for _ in range(2)]
    await trio.to_thread.run_sync(until_left, 2)
    exchanged.use(credentials(OTHER_GATE), "SCRAM-SHA-256", 600_000)
    with pytest.raises(AccountError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
        await stranger.expire(replace(tokens[0], renewer=OTHER_GATE))
    await exchanged.expire(tokens[0])
    await trio.to_thread.run_sync(until_left, 1)
    await exchanged.aclose()
    deletion = UserScramCredentialDeletion(GATE, ScramMechanism.SCRAM_SHA_512)
    kafka.admin.alter_user_scram_credentials([deletion])[GATE].result(30)
    with pytest.raises(AccountError, match="SASL_AUTHENTICATION_FAILED"):
        await exchanged.expire(tokens[1])
    await stranger.aclose()
