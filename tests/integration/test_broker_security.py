"""`epochgate config brokers` on a real broker with every kind of listener: what it requires, and what is missing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml
from confluent_kafka.admin import AclOperation, ResourceType
from support import ROOT
from support.broker import Kafka
from support.secured import TlsFiles, allow, secret, secured_cluster

from proxy.config.network import Address
from proxy.preflight.broker_security import learn
from proxy.runtime.exit_codes import ExitCode
from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

SASL = ("OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("broker-security-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, tls) -> Cluster:
    return own_kafka_of_module(**secured_cluster(tls))


def checked(config: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command on a configuration."""
    (folder / "epochgate.yaml").write_text(yaml.safe_dump(config))
    return subprocess.run(
        [sys.executable, "-m", "proxy", "config", "brokers", folder / "epochgate.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def reported(
    cluster: Cluster, folder, listener: str, upstream_tls: dict[str, Any] | None = None, **kafka: str
) -> tuple[int, list[str]]:
    """The exit code of the command for this listener, and its lines."""
    bootstrap = cluster.bootstrap_of(listener) if listener else cluster.bootstrap
    upstream: dict[str, Any] = {"bootstrap": bootstrap.split(",")}
    if upstream_tls is not None:
        upstream["tls"] = upstream_tls
    config = {
        "upstream": upstream,
        "listeners": [{"advertised_host": "localhost", "nodes": {"0": 9100}}],
        "fleet": {"kafka": {"bootstrap.servers": bootstrap, **kafka}},
    }
    done = checked(config, folder)
    assert "Traceback" not in done.stderr
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize(
    ("listener", "protocol", "mechanisms", "certificate"),
    [
        ("", "PLAINTEXT", (), False),
        ("SASL", "SASL_PLAINTEXT", SASL, False),
        ("SASL_TLS", "SASL_SSL", SASL, False),
        ("TLS", "SSL", (), False),
        ("MUTUAL_TLS", "SSL", (), True),
    ],
)
def test_a_listener_says_what_it_requires(cluster, listener, protocol, mechanisms, certificate):
    bootstrap = cluster.bootstrap_of(listener) if listener else cluster.bootstrap
    required = trio.run(learn, [Address.parse(one) for one in bootstrap.split(",")])
    assert required.protocol == protocol
    assert set(required.mechanisms or ()) == set(mechanisms)
    assert required.certificate is certificate


def test_without_security_nothing_is_missing(cluster, folder):
    code, lines = reported(cluster, folder, "")
    assert (code, lines) == (ExitCode.SUCCESS, ["the brokers require nothing that the configuration lacks"])


def test_the_first_line_says_which_account_is_missing(cluster, folder):
    code, lines = reported(cluster, folder, "SASL_TLS")
    assert code == ExitCode.PROBLEM_FOUND
    assert lines[0].startswith("error: the member log has no account: the brokers require SASL_SSL by ")
    assert "security.protocol: SASL_SSL, sasl.mechanisms: SCRAM-SHA-512" in lines[0]
    assert "fleet.secretName" in lines[0]
    assert lines[1].endswith("`upstream.tls` is not set")
    assert "Read, Write, Describe and DescribeConfigs" in lines[2]


def test_a_password_that_is_missing_or_wrong_is_named_by_its_property_or_by_what_brokers_say(cluster, folder):
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
    }
    _, lines = reported(cluster, folder, "SASL", **given)
    assert "and sasl.password is missing" in lines[0]
    code, lines = reported(cluster, folder, "SASL", **given, **{"sasl.password": "not-hers"})
    assert code == ExitCode.PROBLEM_FOUND
    assert "the brokers refuse the member log's account" in lines[0]
    assert "uthentication failed" in lines[0]
    assert "not-hers" not in "".join(lines)


def test_a_mechanism_that_brokers_do_not_have_is_named(cluster, folder):
    _, lines = reported(
        cluster, folder, "SASL", **{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "GSSAPI"}
    )
    assert "`fleet.kafka` has `sasl.mechanisms: GSSAPI`" in lines[0]


def test_an_account_without_rights_on_the_topic_learns_which(cluster, folder):
    kafka = Kafka(cluster.bootstrap, source="secured", version=cluster.version)
    kafka.new_topic(partitions=16, name="__epochgate_members")
    account = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": secret("bob"),
    }
    code, lines = reported(cluster, folder, "SASL", **account)
    assert code == ExitCode.PROBLEM_FOUND
    assert "may not describe" in lines[0]
    rights = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    allow(kafka.admin, "bob", ResourceType.TOPIC, "__epochgate_members", *rights)
    _, lines = reported(cluster, folder, "SASL", **account)
    assert (
        lines[0] == "error: the account of `fleet.kafka` lacks READ, WRITE on the topic __epochgate_members"
    )
    allow(
        kafka.admin, "bob", ResourceType.TOPIC, "__epochgate_members", AclOperation.READ, AclOperation.WRITE
    )
    assert reported(cluster, folder, "SASL", **account)[0] == ExitCode.SUCCESS


def test_tls_that_is_set_or_missing_on_one_side_is_named(cluster, folder, tls):
    ca = {"ca": str(tls.ca)}
    _, lines = reported(cluster, folder, "", upstream_tls=ca)
    assert any("require PLAINTEXT" in line and "`upstream.tls` is set" in line for line in lines)
    log = {"security.protocol": "SSL", "ssl.ca.location": str(tls.ca)}
    _, lines = reported(cluster, folder, "MUTUAL_TLS", upstream_tls=ca, **log)
    assert "`fleet.kafka` has no `ssl.certificate.location`" in lines[0]
    assert any("`upstream.tls.certificate` is not set" in line for line in lines)


def test_no_broker_is_no_finding(cluster, folder):
    config = {
        "upstream": {"bootstrap": ["127.0.0.1:1"]},
        "listeners": [{"advertised_host": "localhost", "nodes": {"0": 9100}}],
    }
    done = checked(config, folder)
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.startswith("error: 127.0.0.1:1: ")
