"""The pipeline's clients at a broker with TLS, SCRAM and ACLs, with an account that may do no more than it must."""

import os
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourcePatternType, ResourceType
from pyspark.sql import SparkSession
from support.secured import TlsFiles, allow, secret, secured_cluster
from support.waiting import eventually

from pipeline.capture import capture
from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.kafka_settings import with_files
from pipeline.readiness import cluster, records
from pipeline.readiness.cluster import SHARE_STATE_TOPIC
from pipeline.readiness.records import OFFSETS_TOPIC
from tests.pipeline.conftest import without
from tools.kafka.cluster import RUN, Cluster
from tools.kafka.jars import KafkaUnavailableError

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

Settings = dict[str, str]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(tls: TlsFiles) -> Iterator[Cluster]:
    """A broker on which alice may do what the pipeline does, and bob only read the journal."""
    broker = Cluster(RUN / f"pipeline-secured-{os.getpid()}", **secured_cluster(tls))
    broker.save(owner_pid=os.getpid())
    try:
        with broker:
            prepare(AdminClient({"bootstrap.servers": broker.bootstrap}), broker.bootstrap)
            yield broker
    except KafkaUnavailableError as reason:
        without(f"no Kafka: {reason}")
    finally:
        broker.remove()


def prepare(admin: AdminClient, bootstrap: str) -> None:
    for made in admin.create_topics([NewTopic("journal", 2, 1)]).values():
        made.result(60)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(7):
        producer.produce("journal", f"line {number}", partition=number % 2)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "committed"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("journal", 0, 3)], asynchronous=False)
    consumer.close()
    allow(admin, "alice", ResourceType.TOPIC, "journal", AclOperation.READ)
    allow(admin, "bob", ResourceType.TOPIC, "journal", AclOperation.READ)
    allow(admin, "alice", ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.READ)
    allow(admin, "alice", ResourceType.TOPIC, "*", AclOperation.DESCRIBE)
    allow(admin, "alice", ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)
    prefix = ResourcePatternType.PREFIXED  # the connector names a new group each time, and joins none
    allow(admin, "alice", ResourceType.GROUP, "spark-kafka-", AclOperation.READ, pattern=prefix)


@pytest.fixture(params=["SASL_TLS", "MUTUAL_TLS"])
def account(
    request: pytest.FixtureRequest, secured: Cluster, tls: TlsFiles, tmp_path: Path
) -> tuple[str, Settings]:
    """Where alice connects, and as a chart's pod would be told: the CA and all that is secret are files."""
    at = secured.bootstrap_of(request.param)
    if request.param == "MUTUAL_TLS":
        certificate, key = tls.issue("alice")
        return at, {
            "security.protocol": "SSL",
            "ssl.ca.location": str(tls.ca),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }
    password = tmp_path / "password"
    password.write_text(secret("alice") + "\n")
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "ssl.ca.location": str(tls.ca),
    }
    return at, with_files(settings, {"sasl.password": str(password)})


def test_offsets_are_the_same_by_both_clients(
    account: tuple[str, Settings], spark: SparkSession, tmp_path: Path
) -> None:
    at, settings = account
    count = capture(at, tmp_path / "capture", settings).records
    captured = records.captured(spark, tmp_path / "capture")
    partitions = cluster.ask(at, settings).partitions(OFFSETS_TOPIC)
    read = records.from_kafka(spark, at, partitions, settings)
    columns = ["partition", "offset", "key", "value"]
    by_librdkafka, by_java = (
        {tuple(row) for row in rows.select(columns).collect()} for rows in (captured, read)
    )
    assert len(by_librdkafka) == count > 0
    assert by_librdkafka == by_java


def test_a_journal_is_read_from_its_topic(account: tuple[str, Settings], spark: SparkSession) -> None:
    at, settings = account
    lines = events.from_topic(spark, at, "journal", settings).select("line").collect()
    assert {bytes(row.line) for row in lines} == {f"line {number}".encode() for number in range(7)}


def test_a_journal_needs_no_right_but_to_read_it(
    secured: Cluster, tls: TlsFiles, spark: SparkSession
) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": secret("bob"),
        "ssl.ca.location": str(tls.ca),
    }
    # A session of its own, as every command has one: readiness changes how the connector looks for offsets.
    at = secured.bootstrap_of("SASL_TLS")
    assert events.from_topic(spark.newSession(), at, "journal", settings).count() == 7


def test_no_plan_shows_a_password(account: tuple[str, Settings], spark: SparkSession) -> None:
    at, settings = account
    plan = events.from_topic(spark, at, "journal", settings)._jdf.queryExecution().toString()
    assert "journal" in plan
    assert secret("alice") not in plan
    assert "PRIVATE KEY" not in plan


def test_the_state_of_share_groups_needs_a_right_of_its_own(
    secured: Cluster, tls: TlsFiles, tmp_path: Path
) -> None:
    """Without it all else is captured, and the capture says so."""
    at = secured.bootstrap_of("SASL_TLS")
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": secret("alice"),
        "ssl.ca.location": str(tls.ca),
    }
    bob = {**settings, "sasl.mechanisms": "PLAIN", "sasl.username": "bob", "sasl.password": secret("bob")}
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    absent = capture(at, tmp_path / "absent", settings)
    assert SHARE_STATE_TOPIC not in admin.list_topics(timeout=60).topics, "looking for it has created it"
    for made in admin.create_topics([NewTopic(SHARE_STATE_TOPIC, 2, 1)]).values():
        made.result(60)

    denied = capture(at, tmp_path / "denied", settings)
    assert not cluster.may_read(at, SHARE_STATE_TOPIC, bob), "he may not even see it"
    allow(admin, "alice", ResourceType.TOPIC, SHARE_STATE_TOPIC, AclOperation.READ)
    eventually(
        lambda: cluster.may_read(at, SHARE_STATE_TOPIC, settings), bool, what="alice may read the state"
    )
    allowed = capture(at, tmp_path / "allowed", settings)

    assert (absent.share_records, absent.may_read_share_state) == (None, True)
    assert (denied.share_records, denied.may_read_share_state) == (None, False)
    assert (allowed.share_records, allowed.may_read_share_state) == (0, True)
    assert absent.records == denied.records == allowed.records > 0


def test_a_wrong_password_is_one_line(secured: Cluster, tls: TlsFiles, tmp_path: Path) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "guessed",
        "ssl.ca.location": str(tls.ca),
    }
    with pytest.raises(PipelineError, match="does not say what is asked") as refused:
        capture(secured.bootstrap_of("SASL_TLS"), tmp_path, settings)
    assert "guessed" not in str(refused.value)
