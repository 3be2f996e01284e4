"""`epochgate preflight` at real brokers: planted faults are named with what to do, and healthy groups are not.

Each cluster serves many faults; each fault is a test of its own.
"""

import contextlib
import json
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.static.primitive import i8
from playwright.sync_api import expect
from support import raw
from support.broker import Kafka
from support.browser import flaws, open_page
from support.entry import Proxy, running_proxy
from support.preflight import SESSION_MS, UNTIL_THE_END_MS, Groups, found, preflight, statuses
from support.raw_member import RawMember
from support.raw_share_member import RawShareMember
from support.secured import TlsFiles, sasl_settings, secret
from support.waiting import eventually

from proxy.preflight.checks.table import CHECKS
from proxy.runtime.exit_codes import ExitCode
from tests.skips import not_here, program
from tools.kafka import jars
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.ports import LOOPBACK, free_port_block
from tools.kafka.settings import GROUP_DEFAULTS

pytestmark = pytest.mark.kafka

STOCK = GROUP_DEFAULTS | {"group.initial.rebalance.delay.ms": "0"}
"""A broker whose groups are as a stock one's, without the wait of the first member."""

PARTITIONS = 6
HEALTHY = 50
OBSERVE = "default: observe\n"
TRANSLATE = "default: translate\n"


def kafka_of(cluster: Cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="own", version=cluster.version)


@dataclass(frozen=True)
class Judged:
    """What the command said, of a cluster with everything wrong."""

    code: int
    report: dict[str, Any]

    def finding(self, check: str) -> dict[str, Any]:
        """The one finding of a check."""
        (only,) = found(self.report)[check]
        return only


# -- a cluster where everything is wrong -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken(own_kafka_of_module, tmp_path_factory) -> Iterator[tuple[Kafka, str, Path]]:
    """A broker with bad settings, groups that can't move, ACLs that hurt, and a configuration that does not fit."""
    folder = tmp_path_factory.mktemp("broken")
    cluster = own_kafka_of_module(
        overrides=STOCK
        | {
            "group.consumer.migration.policy": "upgrade",
            "group.consumer.assignors": "uniform",
            "group.consumer.max.size": "2",
            "group.consumer.min.session.timeout.ms": "9000",
            "group.consumer.session.timeout.ms": "9000",
            "group.consumer.assignment.interval.ms": "12000",
            "group.min.session.timeout.ms": "1000",
            "max.connections.per.ip": "1000",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
        listeners=(ExtraListener("SASL", "SASL_PLAINTEXT", _only_plain()),),
    )
    kafka = kafka_of(cluster)
    topic, hidden = kafka.new_topic(partitions=PARTITIONS), kafka.new_topic("hidden", partitions=PARTITIONS)
    _acls(kafka, hidden)
    with contextlib.ExitStack() as stack:
        groups = Groups(kafka, stack, UNTIL_THE_END_MS)  # the tests may take longer than a usual session
        groups.add("ranged", topic)
        groups.add("large", topic, members=3)
        groups.of(protocol_type="connect", assignor="default")("workers", topic)
        groups.of(assignor="stream")("application", topic)
        groups.of(assignor="homemade")("homemade", topic)
        groups.of(assignor="roundrobin", rack="a")("racked", topic)
        groups.of(assignor="range", rack="a")("ranged-racked", topic)
        groups.add("kept", topic, user_data=b"what an assignor keeps")
        groups.of(assignor="roundrobin")("hiding", hidden)
        if kafka.version < "4.1":
            yield kafka, cluster.bootstrap_of("SASL"), folder
            return
        share = stack.enter_context(raw.to_coordinator(kafka.bootstrap, "shared"))
        assert RawShareMember(kafka, share, "shared", topic).join().error_code == 0
        yield kafka, cluster.bootstrap_of("SASL"), folder


def _only_plain() -> dict[str, str]:
    settings = sasl_settings()
    return {"sasl.enabled.mechanisms": "PLAIN"} | {
        name: value for name, value in settings.items() if name.startswith("plain.")
    }


def _acls(kafka: Kafka, hidden: str) -> None:
    def acl(name: str, operation: AclOperation, permission: AclPermissionType, host: str = "*") -> AclBinding:
        user = "User:alice"
        return AclBinding(
            ResourceType.TOPIC, name, ResourcePatternType.LITERAL, user, host, operation, permission
        )

    planted = [
        acl("*", AclOperation.READ, AclPermissionType.ALLOW, host="10.1.2.3"),
        acl(hidden, AclOperation.DESCRIBE, AclPermissionType.DENY),
        acl("__epochgate_members", AclOperation.WRITE, AclPermissionType.ALLOW),
    ]
    for done in kafka.admin.create_acls(planted).values():
        done.result(timeout=60)


@pytest.fixture(scope="module")
def judged(broken) -> Iterator[Judged]:
    """The report, for a configuration with mistakes of its own."""
    kafka, _, folder = broken
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = int(kafka.bootstrap.rpartition(":")[2])
        config = {
            "upstream": {"bootstrap": [kafka.bootstrap]},
            "listeners": [
                {
                    "bind": LOOPBACK,
                    "port": taken.getsockname()[1],
                    "advertised_host": "proxy.invalid",
                    "nodes": {"2-4": free_port_block(3)},
                },
                # the address of the broker itself: what an operator gets who gave the proxy the brokers' names
                {"bind": "127.0.0.2", "port": 0, "advertised_host": LOOPBACK, "nodes": {"1": port}},
            ],
            "admin": {"port": 0},
            "policy": {"file": "policy.yaml"},
            "workers": 2,
        }
        (folder / "epochgate.yaml").write_text(json.dumps(config))
        (folder / "policy.yaml").write_text(TRANSLATE)
        yield Judged(*preflight("--config", folder / "epochgate.yaml", "--kafka-version", "4.3.1"))


SINCE = {"assignment_interval": "4.3", "group_type": "4.1"}
"""The first release in which the fault can be planted; before there is no such setting, and no stable share group."""


def _needs(kafka: Kafka, check: str) -> None:
    if kafka.version < SINCE.get(check, ""):
        not_here(f"Kafka {kafka.version} can't have this fault")


PLANTED = {
    "migration_policy": ("group.consumer.migration.policy is upgrade", "bidirectional"),
    "assignors": ("without the assignor range", "group.consumer.assignors"),
    "max_size": ("group.consumer.max.size is 2", "at least 4"),
    "heartbeat_interval": ("after one late heartbeat", "three times"),
    "assignment_interval": ("group.consumer.assignment.interval.ms is 12000", "1000"),
    "connections_per_ip": ("max.connections.per.ip is 1000", "max.connections.per.ip.overrides"),
    "session_bounds": ("group.min.session.timeout.ms is 1000", "limits.session_timeout_min_ms: 1000"),
    "hidden_nodes": ("broker 1 have no port", "`nodes`"),
    "loop": ("connect to itself", "advertised.listeners"),
    "ports": ("can't listen on", "choose another port"),
    "failover": ("share no member log", "`fleet`"),
    "moved_together": ("onPartitionsLost", "a pause does no harm"),
    "group_type": ("share groups or streams groups", "type: share"),
    "racks": ("racks", "another rack"),
    "acl_hosts": ("from 10.1.2.3", "any host"),
    "acl_topics": ("may not describe", "allow DESCRIBE"),
}


BY_TESTS_OF_THEIR_OWN = {
    "translatable": "test_groups_whose_clients_can_not_be_translated_are_told_apart",
    "acl_member_log": "test_who_may_write_to_the_member_log_is_named",
    "identity_rights": "test_an_account_that_may_make_tokens_of_anybody_is_named",
    "identity_principals": "test_an_account_that_may_make_tokens_of_anybody_is_named",
    "settings_differ": "test_a_setting_that_brokers_differ_in_is_named",
    "group_bounds": "test_a_setting_of_a_group_outside_of_a_brokers_bounds_is_found",
    "group_version": "test_a_cluster_whose_group_version_is_not_finalized_is_found",
    "rebalance_protocols": "test_a_coordinator_without_the_new_protocol_is_found",
    "past_the_proxy": "test_a_member_that_comes_past_the_proxy_is_found",
    "static_duplicates": "test_processes_that_share_an_instance_id_are_found",
    "client_sessions": "test_a_session_timeout_beyond_the_brokers_is_found",
}
"""Faults that are planted elsewhere than in the cluster where everything is wrong, on every release too."""

IN_LONG_TESTS = {
    "mixed_versions": "test_an_upgrade_that_has_not_ended_is_found",
    "heartbeat_api": "test_an_upgrade_from_a_release_without_the_new_protocol_is_found",
}
BY_HAND_ONLY = ("way_back", "proxy_state")
"""Faults of which facts are made by hand (tests/proxy/preflight/test_judge.py), besides bugs of releases."""


@pytest.mark.parametrize(
    ("release", "faults"), [("4.0", 25), ("4.1", 26), ("4.2", 26), ("4.3", 27), ("4.4", 27)]
)
def test_every_release_has_so_many_planted_faults(release, faults):
    planted = [check for check in PLANTED if release >= SINCE.get(check, "")]
    assert len(planted) + len(BY_TESTS_OF_THEIR_OWN) == faults


def test_every_check_is_tried_on_a_real_broker_or_it_is_said_that_it_is_not():
    named = {**BY_TESTS_OF_THEIR_OWN, **IN_LONG_TESTS}
    assert all(test in globals() for test in named.values())
    of_releases = {check.name for check in CHECKS if check.name.startswith("bug_")}
    assert {check.name for check in CHECKS} - of_releases == {*PLANTED, *named, *BY_HAND_ONLY}


@pytest.mark.parametrize("check", PLANTED)
def test_a_planted_fault_is_named_with_what_to_do(broken, judged, check):
    _needs(broken[0], check)
    what, do = PLANTED[check]
    finding = judged.finding(check)
    assert what in finding["what"]
    assert do in finding["do"]
    assert statuses(judged.report)[check] == "found"


@pytest.mark.parametrize(
    ("check", "groups"),
    [
        ("assignors", ["hiding", "homemade", "kept", "large", "racked", "ranged", "ranged-racked"]),
        ("max_size", ["large"]),
        ("moved_together", ["kept"]),
        ("group_type", ["shared"]),
        ("racks", ["ranged-racked"]),
        ("acl_topics", ["hiding"]),
    ],
)
def test_the_groups_that_a_fault_concerns_are_named(broken, judged, check, groups):
    _needs(broken[0], check)
    uniform = {"hiding", "homemade", "racked"}
    expected = [one for one in groups if check != "assignors" or one not in uniform]
    assert judged.finding(check)["groups"] == expected


def test_groups_whose_clients_can_not_be_translated_are_told_apart(judged):
    by_groups = {tuple(one["groups"]): one for one in found(judged.report)["translatable"]}
    assert "leave it classic" in by_groups["workers",]["do"]
    assert "Kafka Streams" in by_groups["application",]["what"]
    assert "assignors_allowed" in by_groups["homemade",]["do"]
    assert len(by_groups) == 3


def test_the_release_that_is_named_adds_what_is_known_of_it(broken, judged):
    _needs(broken[0], "group_type")
    assert found(judged.report)["bug_streams_deleted"][0]["groups"] == ["shared"]
    assert statuses(judged.report)["bug_tied_assignors"] == "passed"  # since 4.4 only


def test_what_was_found_ends_the_command_with_its_code(judged):
    assert judged.code == ExitCode.PROBLEM_FOUND
    assert judged.report["status"] == "found"
    assert not found(judged.report, unknown=True)


def test_who_may_write_to_the_member_log_is_named(broken):
    kafka, _, folder = broken
    config = {
        "upstream": {"bootstrap": [kafka.bootstrap]},
        "listeners": [{"advertised_host": LOOPBACK, "port": 0, "nodes": {"0-9": 0}}],
        "admin": {"port": 0},
        "fleet": {"kafka": {"bootstrap.servers": kafka.bootstrap, "sasl.username": "fleet"}},
    }
    (folder / "fleet.yaml").write_text(json.dumps(config))
    _, report = preflight("--config", folder / "fleet.yaml")
    (finding,) = found(report)["acl_member_log"]
    assert "User:alice may write to the member log" in finding["what"]


def test_an_account_that_may_make_tokens_of_anybody_is_named(broken):
    """librdkafka shows ACLs on users without their type, since it knows no such resource."""
    kafka, _, folder = broken
    acl = AclCreation(
        resource_type=i8(7),
        resource_name="*",
        principal="User:gate",
        host="*",
        operation=i8(13),
        permission_type=i8(3),
    )
    with raw.RawConnection(kafka.bootstrap) as anybody:
        (result,) = anybody.call(CreateAclsRequest(creations=(acl,))).results
        assert result.error_code == 0
    ops = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        "User:CN=ops",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    for done in kafka.admin.create_acls([ops]).values():
        done.result(timeout=60)
    (folder / "password").write_text("secret")
    tls = TlsFiles(folder / "tls")
    certificate, key = tls.issue("proxy")
    mutual = {
        "certificate": str(certificate),
        "key": str(key),
        "client_ca": str(tls.ca),
        "client_auth": "required",
    }
    listener = {"advertised_host": LOOPBACK, "port": 0, "nodes": {"0-9": 0}, "tls": mutual}
    config = {
        "upstream": {"bootstrap": [kafka.bootstrap]},
        "listeners": [{**listener, "identity": "delegation_token"}],
        "admin": {"port": 0},
        "identity": {
            "allow": [".*"],
            "account": {"username": "gate", "password_file": "password"},
            "plaintext_upstream": True,
        },
    }
    (folder / "identity.yaml").write_text(json.dumps(config))
    _, report = preflight("--config", folder / "identity.yaml")
    (rights,) = found(report)["identity_rights"]
    assert "or of everybody: * (LITERAL) for User:gate" in rights["what"]
    (principals,) = found(report)["identity_principals"]
    assert "User:CN=ops" in principals["what"]


def test_what_an_account_may_not_see_is_unknown_and_says_which_right_it_lacks(broken):
    _, sasl, _ = broken
    account = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=bob")
    options = [part for one in account for part in ("--kafka-conf", one)]
    code, report = preflight("--from", sasl, *options, "--kafka-conf", f"sasl.password={secret('bob')}")
    gaps = found(report, unknown=True)
    assert code == ExitCode.UNDECIDED
    assert "--operation DescribeConfigs --cluster" in gaps["settings"][0]["do"]
    assert "--operation Describe --cluster" in gaps["acls"][0]["do"]
    assert "whether these are all groups" in gaps["groups"][0]["what"]
    said = statuses(report)
    assert said["group_version"] == "passed"
    assert said["migration_policy"] == said["translatable"] == said["acl_hosts"] == "unknown"


def test_without_an_account_where_one_is_wanted_nothing_passes(broken):
    _, sasl, _ = broken
    code, report = preflight("--from", sasl)
    assert code == ExitCode.UNDECIDED
    assert {"brokers", "groups", "acls"} <= found(report, unknown=True).keys()
    assert "passed" not in statuses(report).values()


def test_a_wrong_password_is_said_soon(broken):
    _, sasl, _ = broken
    account = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=bob")
    options = [part for one in (*account, "sasl.password=wrong") for part in ("--kafka-conf", one)]
    code, report = preflight("--from", sasl, *options)
    assert code == ExitCode.UNDECIDED
    assert "uthentication" in found(report, unknown=True)["groups"][0]["what"]


def test_nothing_was_written(broken, judged):
    kafka, _, _ = broken
    assert judged.code
    topics = kafka.admin.list_topics(timeout=60).topics
    assert not [name for name in topics if "epochgate" in name]
    groups = {one.group_id for one in kafka.admin.list_consumer_groups().result(60).valid}
    assert not [name for name in groups if "epochgate" in name]


# -- a proxy that makes preflights of its own accord ---------------------------------------------------------------


@dataclass(frozen=True)
class Watched:
    """A proxy before the cluster where everything is wrong."""

    proxy: Proxy

    def view(self) -> dict[str, Any]:
        """What it says of its own preflight."""
        with urllib.request.urlopen(f"{self.proxy.admin}/api/preflight", timeout=10) as answer:  # noqa: S310 - our own
            told: dict[str, Any] = json.load(answer)
        return told

    def logged(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a kind in its log."""
        lines = (json.loads(line) for line in self.proxy.log.read_text().splitlines() if line.startswith("{"))
        return [one for one in lines if one["event"] == kind]


@pytest.fixture(scope="module")
def watched(broken) -> Iterator[Watched]:
    kafka, _, folder = broken
    settings = {"every_s": 1, "accept": ["racks"], "kafka_version": "4.3.1"}
    with running_proxy(
        kafka.bootstrap, folder / "watched", policy=TRANSLATE, preflight=settings, limits={}, workers=2
    ) as proxy:
        watched = Watched(proxy)
        eventually(watched.view, lambda view: view["state"] == "done", what="a preflight is done")
        yield watched


def test_a_running_proxy_finds_what_the_command_does(watched, judged):
    own = watched.view()["report"]
    of_this_machine = {"hidden_nodes", "loop", "ports"}  # of the configuration that the command was given
    expected = found(judged.report).keys() - of_this_machine
    assert found(own).keys() == expected | {"past_the_proxy"}  # all groups are
    assert statuses(own)["racks"] == "accepted"
    for check in ("migration_policy", "acl_topics", "translatable"):
        mine, theirs = (
            [(one["what"], one["groups"], one["do"]) for one in found(report)[check]]
            for report in (own, judged.report)
        )
        assert mine == theirs


def test_it_is_logged_once_and_counted(watched):
    eventually(
        lambda: watched.logged("preflight done"),
        lambda lines: len(lines) > 2,
        what="three preflights are done",
    )
    lines = watched.logged("preflight: found")
    (line,) = [one for one in lines if one["check"] == "migration_policy"]
    assert (line["level"], line["do"].split()[0]) == ("warning", "set")
    metrics = watched.proxy.metrics()
    counts = {
        status: int(
            float(metrics.split(f'epochgate_preflight_checks{{status="{status}"}} ')[1].split("\n")[0])
        )
        for status in ("passed", "found", "unknown", "accepted", "not asked")
    }
    said = list(statuses(watched.view()["report"]).values())
    assert counts == {status: said.count(status) for status in counts}
    assert 'epochgate_preflight_runs_total{result="failed"}' not in metrics


def test_a_new_policy_is_judged_without_being_asked_for(watched):
    policy = watched.proxy.folder / "policy.yaml"
    before = watched.view()["policy_version"]
    policy.write_text(OBSERVE)
    view = eventually(
        watched.view, lambda told: told["policy_version"] > before, what="the new policy is judged"
    )
    assert view["report"]["to_move"] == 0
    assert "past_the_proxy" not in found(view["report"])
    policy.write_text(TRANSLATE)
    eventually(watched.view, lambda told: told["report"]["to_move"] > 0, what="the old policy is judged")


def test_a_person_sees_it_in_a_browser(watched, folder):
    chromium = program("chromium", "chromium")
    errors: list[str] = []
    with open_page(chromium, watched.proxy.admin, errors) as page:
        page.get_by_role("link", name="Preflight").click()
        expect(page.get_by_role("heading", name="Preflight", exact=True)).to_be_visible()
        table = page.get_by_role("region", name="Found").get_by_role("table")
        row = table.get_by_role("row").filter(has_text="acl_topics")
        expect(row).to_contain_text("hiding")
        expect(row).to_contain_text("allow DESCRIBE")
        expect(page.get_by_role("region", name="Accepted")).to_contain_text("another rack")
        assert page.locator("table.checks tbody tr").count() == len(watched.view()["report"]["checks"])
        assert page.context.browser is not None
        assert flaws(page.context.browser, f"{watched.proxy.admin}/preflight", folder / "preflight") == []
    assert errors == []


# -- brokers that differ ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def differing(own_kafka_of_module) -> tuple[int, dict[str, Any]]:
    """Two brokers, of which the second is started again with other settings than the groups were given."""
    cluster = own_kafka_of_module(brokers=2, overrides=STOCK)
    kafka = kafka_of(cluster)
    topic = kafka.new_topic(partitions=PARTITIONS)
    kafka.commit("tuned", {(topic, 0): 0})
    _set_group(kafka, "tuned", "consumer.session.timeout.ms", "60000")
    second = cluster.brokers[1]
    cluster.stop_broker(2)
    with (second.folder / "server.properties").open("a") as properties:
        properties.write("group.consumer.max.session.timeout.ms=50000\n")
        properties.write("group.consumer.migration.policy=disabled\n")
    cluster.start_broker(2)
    return eventually(
        lambda: preflight("--from", kafka.bootstrap),
        lambda told: (
            told[1]["groups"] == 1
        ),  # while a coordinator moves, brokers leave its groups out of their lists
        what="the brokers list the group",
    )


def _set_group(kafka: Kafka, group: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    kafka.admin.incremental_alter_configs([resource])[resource].result(timeout=60)


def test_a_setting_that_brokers_differ_in_is_named(differing):
    _, report = differing
    whats = " ".join(one["what"] for one in found(report)["settings_differ"])
    assert "group.consumer.migration.policy is bidirectional at broker 1, disabled at broker 2" in whats


def test_a_policy_of_one_broker_alone_is_found(differing):
    _, report = differing
    assert "disabled at broker 2" in found(report)["migration_policy"][0]["what"]


def test_a_setting_of_a_group_outside_of_a_brokers_bounds_is_found(differing):
    _, report = differing
    (finding,) = found(report)["group_bounds"]
    assert finding["groups"] == ["tuned"]
    assert "consumer.session.timeout.ms of these groups is 60000" in finding["what"]
    assert "broker 2 have bounds of 45000 to 50000" in finding["what"]


# -- a rolling upgrade, half-way ---------------------------------------------------------------------------------


def half_upgraded(own_kafka, before: str) -> tuple[Kafka, dict[str, Any]]:
    """What is said of two brokers of an older release, of which the second has been upgraded to the newest."""
    cluster = own_kafka(brokers=2, version=before, overrides=STOCK)
    jars.ensure_jars(jars.DEFAULT_VERSION)
    cluster.stop_broker(2)
    cluster.brokers[1].version = jars.DEFAULT_VERSION
    cluster.start_broker(2)
    return kafka_of(cluster), preflight("--from", cluster.bootstrap)[1]


@pytest.mark.long
def test_an_upgrade_that_has_not_ended_is_found(own_kafka):
    kafka, report = half_upgraded(own_kafka, "4.0.1")
    (finding,) = found(report)["mixed_versions"]
    assert "broker 1 and broker 2 serve different versions" in finding["what"]
    assert "finish the upgrade" in finding["do"]
    said = statuses(report)
    assert said["heartbeat_api"] == said["group_version"] == "passed"  # both releases have the new protocol
    assert found(report).keys() <= {"mixed_versions", "settings_differ"}
    assert report["brokers"] == 2
    kafka.new_topic(partitions=1)  # the cluster works, so it is no failed start that was looked at


@pytest.mark.long
def test_an_upgrade_from_a_release_without_the_new_protocol_is_found(own_kafka):
    _, report = half_upgraded(own_kafka, "3.9.1")
    (without,) = found(report)["heartbeat_api"]
    assert "broker 1 without ConsumerGroupHeartbeat (API 68) v1" in without["what"]
    assert "upgrade every broker" in without["do"]
    (feature,) = found(report)["group_version"]
    assert "brokers 1, 2 without the finalized feature group.version" in feature["what"]
    assert "mixed_versions" in found(report)
    unknown = found(report, unknown=True)
    assert any("broker 1: not told are" in one["what"] for one in unknown["settings"]), unknown
    assert statuses(report)["migration_policy"] != "passed"


# -- brokers without the new protocol -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def without_protocol(own_kafka_of_module) -> tuple[int, dict[str, Any]]:
    cluster = own_kafka_of_module(
        overrides=STOCK | {"group.coordinator.rebalance.protocols": "classic"},
        format_options=("--feature", "group.version=0"),
    )
    return preflight("--from", cluster.bootstrap)


def test_a_cluster_whose_group_version_is_not_finalized_is_found(without_protocol):
    _, report = without_protocol
    (finding,) = found(report)["group_version"]
    assert "upgrade --feature group.version=1" in finding["do"]


def test_a_coordinator_without_the_new_protocol_is_found(without_protocol):
    _, report = without_protocol
    assert "does not have `consumer`" in found(report)["rebalance_protocols"][0]["what"]


# -- a cluster where nothing is wrong, and what only a proxy sees -------------------------------------------------


@pytest.fixture(scope="module")
def healthy(own_kafka_of_module, tmp_path_factory) -> Iterator[tuple[Kafka, Groups, Proxy, Path, str]]:
    """A stock broker, a proxy before it, and the policy that is to come."""
    folder = tmp_path_factory.mktemp("healthy")
    kafka = kafka_of(own_kafka_of_module(overrides=STOCK))
    topic = kafka.new_topic(partitions=PARTITIONS)
    planned = folder / "planned.yaml"
    planned.write_text(TRANSLATE)
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(
            running_proxy(kafka.bootstrap, folder / "proxy", policy=OBSERVE, limits={})
        )
        yield kafka, Groups(kafka, stack), proxy, planned, topic


@pytest.fixture
def ask(healthy):
    """The command with everything that it can ask."""
    _, _, proxy, planned, _ = healthy

    def run(*more: object) -> tuple[int, dict[str, Any]]:
        config = proxy.folder / "epochgate.yaml"
        known = ("--policy", planned, "--proxy", proxy.admin)
        return preflight("--config", config, *known, *more)

    return run


def test_nothing_is_found_on_fifty_healthy_groups(healthy, ask):
    kafka, groups, proxy, _, topic = healthy
    assignors = ("range", "roundrobin", "sticky")
    joined: list[RawMember] = []
    for number in range(HEALTHY):
        group = f"healthy-{number:02}"
        members = 1 + number % 3
        of_this = groups.of(assignor=assignors[number % 3])
        joined += of_this(group, topic, members=members, bootstrap=proxy.bootstrap)
    assert {one.heartbeat() for one in joined} == {0}  # and none of their sessions ends while they are judged
    old = ("bug_describe_pending", "bug_join_versions")  # of the cluster, however well its groups are
    accepted = (part for one in old for part in ("--accept", one))
    code, report = ask("--kafka-version", kafka.version, *accepted)
    assert [one for one in report["findings"] if not one["accepted"]] == []
    said = statuses(report)
    assert said.pop("ports") == "not asked"  # the proxy that runs has them
    assert {name for name, status in said.items() if status != "passed"} <= {*old}
    assert report["to_move"] == HEALTHY
    assert code == ExitCode.SUCCESS


def test_a_member_that_comes_past_the_proxy_is_found(healthy, ask):
    _, groups, _, _, topic = healthy
    groups.add("past", topic)
    _, report = ask()
    (finding,) = found(report)["past_the_proxy"]
    assert finding["groups"] == ["past"]
    assert "bootstrap.servers" in finding["do"]


def test_processes_that_share_an_instance_id_are_found(healthy, ask):
    _, groups, proxy, _, topic = healthy
    for _ in range(4):
        groups.of(instance_id="one")("flapping", topic, bootstrap=proxy.bootstrap)
    _, report = eventually(
        ask, lambda told: "static_duplicates" in found(told[1]), what="the proxy shows the members"
    )
    (finding,) = found(report)["static_duplicates"]
    assert finding["groups"] == ["flapping"]
    assert "'one' in flapping" in finding["what"]


def test_a_session_timeout_beyond_the_brokers_is_found(healthy, ask):
    _, groups, proxy, _, topic = healthy
    groups.add("patient", topic, bootstrap=proxy.bootstrap, session_timeout_ms=2 * SESSION_MS)
    _, report = ask()
    (finding,) = found(report)["client_sessions"]
    assert finding["groups"] == ["patient"]


def test_what_is_accepted_is_listed_and_not_counted(healthy, ask):
    _, groups, _, _, topic = healthy
    groups.add("accepted", topic)
    accepted = ("past_the_proxy", "static_duplicates", "client_sessions")
    code, report = ask(*(part for one in accepted for part in ("--accept", one)))
    assert code == ExitCode.SUCCESS
    assert statuses(report)["past_the_proxy"] == "accepted"
    assert any("accepted" in one["groups"] for one in found(report)["past_the_proxy"])


def test_a_proxy_that_does_not_answer_is_unknown(healthy):
    _, _, proxy, planned, _ = healthy
    config = proxy.folder / "epochgate.yaml"
    code, report = preflight(
        "--config", config, "--policy", planned, "--proxy", "127.0.0.1:1", "--accept", "past_the_proxy"
    )
    assert code == ExitCode.UNDECIDED
    assert statuses(report)["static_duplicates"] == "unknown"


def test_a_group_in_a_rebalance_is_unknown(healthy, ask):
    _, groups, proxy, _, topic = healthy
    (member,) = groups.add("joining", topic, bootstrap=proxy.bootstrap)
    (other,) = groups.add("joining-other", topic, bootstrap=proxy.bootstrap)
    member.send_join()
    member.receive_join()  # its SyncGroup is still to come
    _, report = ask()
    unclear = found(report, unknown=True)["translatable"]
    assert unclear[0]["groups"] == ["joining"]
    assert other.heartbeat() == 0
