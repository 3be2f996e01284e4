"""The pipeline's clients at a broker with TLS, SCRAM and ACLs, with an account that may do no more than it must."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
import trustme
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession
from support.secured import TlsFiles, allow, secret, secured_cluster
from support.waiting import eventually
from typer.testing import CliRunner, Result

from pipeline import kafka_clients, kafka_errors, kafka_section
from pipeline.audit import output as audit
from pipeline.capture import capture
from pipeline.journal import events
from pipeline.kafka_settings import with_files
from pipeline.progress import job as progress
from pipeline.progress import output as progressed
from pipeline.readiness import cluster, records
from pipeline.readiness import output as readiness
from pipeline.readiness.cluster import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from proxy.cli import command_line
from proxy.runtime.exit_codes import ExitCode
from tests.pipeline import several_commands
from tests.pipeline.real_journal import kept
from tests.skips import Need, without
from tools.kafka.cluster import RUN, Cluster
from tools.kafka.jars import KafkaUnavailableError
from tools.spark_connector.jars import ensure_connector

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

Settings = dict[str, str]

AWKWARD = """a "b" 'c' \\d\\\\; e=f, {g} ${h} //i é"""
"""Dora's password: what JAAS, shells, YAML and Kafka's own settings give a meaning to."""
SOON_S = 20.0
MOVES = "moves"
"""A topic with the journal of a real migration."""


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
        without(Need.KAFKA, f"no Kafka: {reason}")
    finally:
        broker.remove()


def prepare(admin: AdminClient, bootstrap: str) -> None:
    for made in admin.create_topics([NewTopic("journal", 2, 1), NewTopic(MOVES, 1, 1)]).values():
        made.result(60)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(7):
        producer.produce("journal", f"line {number}", partition=number % 2)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "committed"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("journal", 0, 3)], asynchronous=False)
    consumer.close()
    for line in map(json.dumps, kept()):
        producer.produce(MOVES, line, partition=0)
    assert producer.flush(60) == 0
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    dora = UserScramCredentialUpsertion("dora", credential, AWKWARD.encode())
    for changed in admin.alter_user_scram_credentials([dora]).values():
        changed.result(60)
    allow(admin, "dora", ResourceType.TOPIC, "journal", AclOperation.READ)
    allow(admin, "alice", ResourceType.TOPIC, MOVES, AclOperation.READ)
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
    assert not kafka_clients.may_read(at, SHARE_STATE_TOPIC, bob), "he may not even see it"
    allow(admin, "alice", ResourceType.TOPIC, SHARE_STATE_TOPIC, AclOperation.READ)
    eventually(
        lambda: kafka_clients.may_read(at, SHARE_STATE_TOPIC, settings), bool, what="alice may read the state"
    )
    allowed = capture(at, tmp_path / "allowed", settings)

    assert (absent.share_records, absent.may_read_share_state) == (None, True)
    assert (denied.share_records, denied.may_read_share_state) == (None, False)
    assert (allowed.share_records, allowed.may_read_share_state) == (0, True)
    assert absent.records == denied.records == allowed.records > 0


def connects(folder: Path, tls: TlsFiles, **changed: object) -> Path:
    """A file with a section by which alice connects, with what is changed."""
    (folder / "password").write_text(secret("alice") + "\n")
    (folder / "dora").write_text(AWKWARD + "\n")
    (folder / "guessed").write_text("guessed")
    (folder / "other-ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    section = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "user": "alice",
        "password_file": "password",
        "ca_file": str(tls.ca),
    }
    file = folder / "kafka.yaml"
    file.write_text(json.dumps({"kafka": section | changed}))  # JSON is YAML
    return file


def test_no_character_of_a_password_is_lost_on_the_way_to_either_client(
    secured: Cluster, tls: TlsFiles, spark: SparkSession, tmp_path: Path
) -> None:
    at = secured.bootstrap_of("SASL_TLS")
    settings = kafka_section.load(connects(tmp_path, tls, user="dora", password_file="dora"))  # noqa: S106 - a file
    kafka_clients.check_readable(at, "journal", settings)
    assert events.from_topic(spark.newSession(), at, "journal", settings).count() == 7


def commands(secured: Cluster, out: Path) -> dict[str, list[str]]:
    """The commands that connect, by their names."""
    at = ["--from", secured.bootstrap_of("SASL_TLS")]
    return {
        "capture": ["capture", *at, "--out", f"{out}/capture"],
        "readiness": ["pipeline", "readiness", *at, "--out", f"{out}/readiness"],
        "progress": ["pipeline", "progress", *at, "--topic", MOVES, "--out", f"{out}/progress"],
        "audit": ["pipeline", "audit", *at, "--topic", MOVES, "--out", f"{out}/audit"],
        "verify": ["verify", *at, "--topic", MOVES],
    }


@pytest.mark.parametrize("command", ["capture", "readiness", "progress", "audit", "verify"])
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"password_file": "guessed"},
            "does not accept the login: .*invalid credentials with SASL mechanism SCRAM",
        ),
        ({"ca_file": "other-ca.crt"}, "can't be reached by TLS: .*certificate verify failed"),
        ({"user": "bob", "mechanism": "PLAIN", "password_file": "bob"}, "(READ|DESCRIBE) on"),
    ],
    ids=["wrong password", "wrong CA", "no ACL"],
)
def test_what_keeps_a_client_out_is_one_line_before_spark_starts(
    command: str, changed: Settings, why: str, secured: Cluster, tls: TlsFiles, tmp_path: Path
) -> None:
    (tmp_path / "bob").write_text(secret("bob"))
    file = connects(tmp_path, tls, **changed)
    begun = time.monotonic()
    refused = invoke([*commands(secured, tmp_path)[command], "--kafka", str(file)])
    took_s = time.monotonic() - begun
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert (refused.exit_code, refused.stdout) == (ExitCode.FAILED, "")
    assert re.search(why, line), line
    assert not any(
        word in refused.stderr for word in ("guessed", secret("alice"), secret("bob"), "Traceback")
    )
    assert took_s < SOON_S, "a client that can't connect must say so soon"


def invoke(command: list[str]) -> Result:
    return CliRunner().invoke(command_line(), command)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"password_file": "guessed"}, "the brokers do not accept the login: .*invalid credentials"),
        ({"ca_file": "other-ca.crt"}, "the brokers can't be reached by TLS: .*certification path"),
        (
            {"user": "bob", "mechanism": "PLAIN", "password_file": "bob"},
            "this account may not read the topic: ",
        ),
    ],
    ids=["wrong password", "wrong CA", "no ACL"],
)
def test_what_keeps_sparks_connector_out_is_one_line_too(
    changed: Settings, why: str, secured: Cluster, tls: TlsFiles, spark: SparkSession, tmp_path: Path
) -> None:
    """A password that was changed after the first look, for example."""
    (tmp_path / "bob").write_text(secret("bob"))
    settings = kafka_section.load(connects(tmp_path, tls, **changed))
    with pytest.raises(Exception) as refused:  # noqa: PT011 - Spark's, of many kinds
        events.from_topic(spark.newSession(), secured.bootstrap_of("SASL_TLS"), MOVES, settings).count()
    line = kafka_errors.explanation(refused.value)
    assert line is not None
    assert re.search(why, line), line
    assert "\n" not in line


def test_no_plan_of_a_stream_shows_a_password_or_a_key(
    account: tuple[str, Settings], spark: SparkSession
) -> None:
    """The plan of a stream shows the options of its source."""
    at, settings = account
    plan = progress.lines_of_topic(spark, at, MOVES, settings)._jdf.queryExecution().toString()
    assert MOVES in plan
    assert not any(hidden in plan for hidden in (secret("alice"), "PRIVATE KEY", "LoginModule"))


class Ran(NamedTuple):
    """What all commands said and wrote."""

    captured: str
    certificates: dict[str, Any]
    tables: dict[str, list[str]]


def run_all(spark: SparkSession, out: Path, at: str, *options: object) -> Ran:
    """Run all commands that connect, and the report; Spark writes its event log into ``out``."""
    captured = invoke(["capture", "--from", at, "--out", f"{out}/capture", *map(str, options)])
    assert captured.exit_code == 0, captured.output
    verified = invoke(["verify", "--from", at, "--topic", MOVES, "-o", "json", *map(str, options)])
    (out / "events").mkdir()
    settings = {
        "spark.jars": ",".join(map(str, ensure_connector())),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (out / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    lines = [
        ["readiness", "--from", at, "--out", f"{out}/readiness", *options],
        ["progress", "--from", at, "--topic", MOVES, "--out", f"{out}/progress", *options],
        ["audit", "--from", at, "--topic", MOVES, "--out", f"{out}/audit", *options],
        ["report", "--out", f"{out}/report.html"]
        + [f"--{name}={out}/{name}" for name in ("readiness", "progress", "audit")],
    ]
    ended = several_commands.run(lines, settings)
    assert [one.code for one in ended] == [0, 0, 0, 0], ended
    found = {**json.loads(verified.stdout), "issued_us": 0}
    return Ran(captured.stdout.split(": ")[1], found, rows(spark, out))


@pytest.fixture(scope="module")
def plain(secured: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """By the listener of the same broker that wants to know nothing."""
    return run_all(spark, tmp_path_factory.mktemp("plain"), secured.bootstrap)


@pytest.mark.long
@pytest.mark.timeout(1_800)  # with what all commands take on a busy machine
@pytest.mark.parametrize("account", ["scram", "certificate"])
def test_all_commands_by_one_file_and_what_spark_writes_down(
    account: str, plain: Ran, secured: Cluster, tls: TlsFiles, spark: SparkSession, tmp_path: Path
) -> None:
    """They find what they find without TLS and a login, and neither tables nor the event log have a secret."""
    at, changed = secured.bootstrap_of("SASL_TLS"), dict[str, Any]()
    if account == "certificate":
        certificate, key = tls.issue("alice")
        at = secured.bootstrap_of("MUTUAL_TLS")
        login = dict.fromkeys(("mechanism", "user", "password_file"))
        changed = {"protocol": "SSL", "certificate_file": str(certificate), "key_file": str(key), **login}
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    out.mkdir()

    ran = run_all(spark, out, at, "--kafka", connects(tmp_path / "in", tls, **changed))

    assert ran == plain
    assert ran.certificates["journal"]["events"] == len(kept())
    written = [one.read_bytes() for one in out.rglob("*") if one.is_file()]
    assert any(b"SparkListenerSQLExecutionStart" in one for one in written)
    for hidden in (secret("alice"), "PRIVATE KEY", "LoginModule"):
        assert not any(hidden.encode() in one for one in written), hidden


def rows(spark: SparkSession, out: Path | str) -> dict[str, list[str]]:
    """The rows of the tables that do not tell when they were made."""
    tables = {
        "readiness": (readiness.VERDICTS, readiness.WAVES, readiness.OFFSETS),
        "progress": (progressed.PAUSES, progressed.TRANSITIONS, progressed.STUCK),
        "audit": (audit.INTERVALS, audit.OVERLAPS, audit.GAPS, audit.LOSSES, audit.PROCESSES),
    }
    return {
        f"{command} {table.name}": sorted(str(row) for row in table.read(spark, f"{out}/{command}").collect())
        for command, some in tables.items()
        for table in some
    }
