"""Every check finds what it is for, passes where nothing is wrong, and never passes where something is unknown."""

import msgspec
import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_subscription,
)
from proxy.admin.preflight_report import Source, Status
from proxy.config.fleet import Fleet
from proxy.config.identity import Identity, IdentityAccount, IdentityMode
from proxy.config.limits import Limits
from proxy.config.schema import Listener
from proxy.config.tls import ClientAuth, ListenerTls
from proxy.preflight.checks.settings import TOLD
from proxy.preflight.checks.table import CHECKS
from proxy.preflight.facts import Acl, Apis, Facts, Group, Kind, Member, Unknown, Version, number
from proxy.preflight.gaps import NOT_ASKED
from proxy.preflight.judge import acceptable, judge
from tests.proxy.preflight.facts import (
    SETTINGS,
    UNKNOWN,
    broker,
    classic,
    config,
    facts,
    joined,
    member,
    seen,
    snapshot,
    subscription,
)
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule


def statuses(known: Facts, accepted=()) -> dict[str, Status]:
    return {one.check: one.status for one in judge(known, accepted).checks}


def finding(known: Facts, check: str):
    (only,) = (one for one in judge(known).findings if one.check == check)
    return only


def acl(**changed) -> Acl:
    known = {
        "resource": "TOPIC",
        "name": "t",
        "pattern": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    return Acl(**{**known, **changed})


FLEET = Fleet(kafka={"bootstrap.servers": "kafka-1:9092", "sasl.username": "fleet"})
STATIC = {"instance": "i"}
CUT_SHORT = encode_subscription(ConsumerProtocolSubscription(topics=("t",)), 1)[:-4]
"""As kafka-go's: a v1 that ends before its owned partitions."""
OTHER = Group(group_id="shared", kind=Kind.OTHER)
TWO_PROCESSES = config(workers=2)
SPEAKING = config(
    listeners=(
        Listener(
            port=9000,
            advertised_host="p",
            nodes={"0-9": 9100},
            identity=IdentityMode.DELEGATION_TOKEN,
            tls=ListenerTls(certificate="c", key="k", client_ca="a", client_auth=ClientAuth.REQUIRED),
        ),
    ),
    identity=Identity(
        allow=("[a-z]+",),
        deny=("x",),
        account=IdentityAccount(username="gate", password_file="gate"),  # noqa: S106  a file
    ),
)


def apis(heartbeat: int, features: dict[str, int]) -> Apis:
    return Apis(versions={ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, heartbeat)}, features=features)


def with_apis(*told: Apis) -> dict:
    brokers = (broker(number) for number in range(1, len(told) + 1))
    return {
        "brokers": tuple(
            msgspec.structs.replace(one, apis=each) for one, each in zip(brokers, told, strict=True)
        )
    }


def of_version(text: str, **more) -> dict:
    return {"version": Version.parse(text), **more}


FAULTS = {
    "heartbeat_api": with_apis(apis(1, {"group.version": 1}), apis(0, {"group.version": 1})),
    "group_version": with_apis(apis(1, {"group.version": 0})),
    "mixed_versions": with_apis(apis(1, {"group.version": 1}), apis(2, {"group.version": 1})),
    "hidden_nodes": {"brokers": (broker(10),)},
    "loop": {
        "config": config(listeners=(Listener(port=9000, advertised_host="Kafka-2", nodes={"0-2": 9090}),))
    },
    "ports": {"taken_ports": {"127.0.0.1:9092": "in use"}},
    "failover": {
        "config": TWO_PROCESSES,
        "proxy": snapshot(seen("g", member("g-m0", session_timeout_ms=10_000))),
    },
    "settings_differ": {"brokers": (broker(1), broker(2, group_consumer_max_size="7"))},
    "rebalance_protocols": {"brokers": (broker(group_coordinator_rebalance_protocols="classic"),)},
    "migration_policy": {"brokers": (broker(group_consumer_migration_policy="disabled"),)},
    "assignors": {"brokers": (broker(group_consumer_assignors="uniform"),)},
    "max_size": {"brokers": (broker(group_consumer_max_size="2"),), "groups": (classic(members=2),)},
    "group_bounds": {"groups": (classic(settings={"consumer.session.timeout.ms": "70000"}),)},
    "heartbeat_interval": {"brokers": (broker(group_consumer_session_timeout_ms="9999"),)},
    "assignment_interval": {"brokers": (broker(group_consumer_assignment_interval_ms="5001"),)},
    "connections_per_ip": {"brokers": (broker(max_connections_per_ip="100"),)},
    "session_bounds": {"config": config(limits=Limits(session_timeout_max_ms=60_000))},
    "translatable": {"groups": (classic(assignor="stream"),)},
    "moved_together": {"groups": (classic(assignment=ConsumerProtocolAssignment(user_data=b"kept")),)},
    "group_type": {"groups": (OTHER,)},
    "racks": {"groups": (classic(metadata=subscription(rack="a")),)},
    "way_back": {
        "brokers": (broker(group_max_size="1"),),
        "groups": (
            Group(
                group_id="g",
                kind=Kind.CONSUMER,
                members=tuple(
                    Member(member_id=f"g-m{n}", instance_id=None, client_host="") for n in range(2)
                ),
            ),
        ),
    },
    "acl_hosts": {"acls": (acl(host="10.0.0.1"),)},
    "acl_topics": {"acls": (acl(permission="DENY", operation="DESCRIBE"),)},
    "acl_member_log": {
        "config": config(fleet=FLEET),
        "acls": (acl(name="__epoch", pattern="PREFIXED", operation="ALL"),),
    },
    "identity_rights": {
        "config": SPEAKING,
        "acls": (acl(principal="User:gate", resource="UNKNOWN", name="*", operation="UNKNOWN"),),
    },
    "identity_principals": {"config": SPEAKING, "acls": (acl(resource="CLUSTER", operation="ALTER"),)},
    "proxy_state": {"proxy": snapshot(seen(stuck="c in PreparingRebalance"))},
    "static_duplicates": {
        "proxy": snapshot(seen(events=tuple(joined(f"m{n}", "i", 150 * n) for n in range(4))))
    },
    "past_the_proxy": {"proxy": snapshot()},
    "client_sessions": {"proxy": snapshot(seen("g", member("g-m0", session_timeout_ms=45_001)))},
    "bug_join_versions": of_version("4.0.0"),
    "bug_describe_pending": of_version("4.2.1"),
    "bug_full_group": of_version(
        "4.3.1", brokers=(broker(group_consumer_max_size="1"),), groups=(classic(**STATIC),)
    ),
    "bug_cut_short": of_version("4.1.0", groups=(classic(metadata=CUT_SHORT),)),
    "bug_static_unassigned": of_version("4.4.0", groups=(classic(**STATIC),)),
    "bug_tied_assignors": of_version("4.4.0", groups=(classic(members=2),), config=TWO_PROCESSES),
    "bug_streams_deleted": of_version("4.2.0", groups=(OTHER,)),
    "bug_share_session": of_version("4.1.1", groups=(OTHER,)),
}
"""For each check what makes it find something, in facts where nothing else is wrong with it."""


def test_every_check_has_a_fault_here():
    assert FAULTS.keys() == {check.name for check in CHECKS}


def test_nothing_is_found_where_nothing_is_wrong():
    report = judge(facts())
    assert report.findings == ()
    assert report.status is Status.PASSED
    assert {one.status for one in report.checks} == {Status.PASSED}


@pytest.mark.parametrize("check", FAULTS)
def test_a_check_finds_its_fault_and_says_what_to_do(check):
    known = facts(**FAULTS[check])
    found = finding(known, check)
    assert not found.unknown
    assert found.what
    assert found.do
    assert statuses(known)[check] is Status.FOUND
    assert judge(known).status is Status.FOUND


def test_a_node_without_a_name_is_hidden_and_one_that_advertises_its_name_here_is_a_loop():
    listener = Listener(
        port=9000,
        nodes_by_name="Kafka-{node}.example",
        bootstrap_name="kafka.example",
        node_ids=("0-2",),
        tls=ListenerTls(certificate="c", key="k"),
    )
    named = config(listeners=(listener,))
    found = finding(facts(config=named, brokers=(broker(2), broker(10))), "hidden_nodes")
    assert "broker 10 have no name" in found.what
    assert '`node_ids: ["0-10"]`' in found.do
    itself = msgspec.structs.replace(broker(2), host="kafka-2.example", port=9000)
    assert "broker 2 advertise" in finding(facts(config=named, brokers=(itself,)), "loop").what


def test_the_applications_that_a_move_all_at_once_can_end_are_named():
    assert (
        "commits in onPartitionsLost can end"
        in finding(facts(**FAULTS["moved_together"]), "moved_together").what
    )


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (Source.BROKERS, {"brokers": UNKNOWN}),
        (Source.API_VERSIONS, {"brokers": (broker(1), msgspec.structs.replace(broker(2), apis=UNKNOWN))}),
        (Source.SETTINGS, {"brokers": (broker(1), msgspec.structs.replace(broker(2), settings=UNKNOWN))}),
        (Source.GROUPS, {"groups": UNKNOWN}),
        (Source.GROUPS, {"complete_groups": UNKNOWN}),
        (Source.GROUPS, {"groups": (classic(), msgspec.structs.replace(classic("h"), members=UNKNOWN))}),
        (Source.GROUP_SETTINGS, {"groups": (classic(settings=UNKNOWN),)}),
        (Source.ACLS, {"acls": UNKNOWN}),
        (Source.PROXY, {"proxy": UNKNOWN}),
    ],
)
def test_a_check_does_not_pass_while_a_part_of_what_it_needs_is_unknown(source, changed):
    known = facts(**changed)
    said = statuses(known)
    lacking = {check.name for check in CHECKS if source in check.sources}
    assert lacking
    assert {said[name] for name in lacking} == {Status.UNKNOWN}
    assert judge(known).status is Status.UNKNOWN
    (gap,) = (one for one in judge(known).findings if one.check == source)
    assert set(gap.checks) == lacking
    assert "nobody answers" in gap.what
    assert gap.do == "mend it"


@pytest.mark.parametrize(
    ("source", "absent"),
    [
        (Source.CONFIGURATION, "config"),
        (Source.PORTS, "taken_ports"),
        (Source.PROXY, "proxy"),
        (Source.VERSION, "version"),
    ],
)
def test_what_was_not_asked_for_is_neither_passed_nor_unknown(source, absent):
    report = judge(facts(**{absent: None}))
    lacking = {one.check: one for one in report.checks if one.status is Status.NOT_ASKED}
    assert lacking.keys() == {check.name for check in CHECKS if source in check.sources}
    assert {one.needs for one in lacking.values()} == {NOT_ASKED[source]}
    assert report.status is Status.PASSED


def test_a_group_in_a_rebalance_is_unknown():
    known = facts(groups=(classic(state="PreparingRebalance"),))
    assert finding(known, "translatable").unknown
    assert statuses(known)["translatable"] is Status.UNKNOWN


@pytest.mark.parametrize(
    ("rights", "powerful", "is_found"),
    [
        ({"name": "User:CN=alice"}, "", False),
        ({"name": "User:CN=a", "pattern": "PREFIXED"}, "User:CN=broker", False),
        ({"name": "User:CN=", "pattern": "PREFIXED"}, "User:CN=broker", True),
        ({"name": "Us", "pattern": "PREFIXED"}, "", True),
        ({"name": "User:CN=broker"}, "User:CN=broker", True),
        ({"name": "User:*"}, "", True),
        ({"name": "*", "operation": "ALL"}, "", False),
        ({"name": "*", "operation": "ALL", "resource": "USER"}, "", True),
        ({"name": "*", "principal": "User:other"}, "", False),
        ({"name": "*", "principal": "User:*"}, "", True),
        ({"name": "*", "permission": "DENY"}, "", False),
        ({"name": "User:CN=alice"}, "User:gate", True),
        ({"name": "User:CN=alice"}, "User:*", True),
    ],
)
def test_an_account_that_may_make_tokens_of_who_has_the_cluster_is_found(rights, powerful, is_found):
    given = {"resource": "UNKNOWN", "operation": "UNKNOWN", "principal": "User:gate", **rights}
    of_cluster = acl(resource="CLUSTER", operation="CLUSTER_ACTION", principal=powerful)
    known = facts(config=SPEAKING, acls=(acl(**given), of_cluster) if powerful else (acl(**given),))
    assert (statuses(known)["identity_rights"] is Status.FOUND) is is_found


@pytest.mark.parametrize(
    ("powerful", "is_found"), [("User:*", True), ("User:alice", True), ("User:CN=admin", False)]
)
def test_speaking_for_somebody_who_has_the_cluster_is_found(powerful, is_found):
    of_cluster = acl(resource="CLUSTER", operation="ALTER", principal=powerful)
    known = facts(config=SPEAKING, acls=(of_cluster,))
    assert (statuses(known)["identity_principals"] is Status.FOUND) is is_found


def test_brokers_that_make_principals_of_their_own_are_found():
    known = facts(config=SPEAKING, brokers=(broker(principal_builder_class="com.example.Own"),))
    assert "principal.builder.class" in finding(known, "identity_principals").what


def test_something_found_outweighs_something_unknown():
    known = facts(acls=UNKNOWN, **FAULTS["migration_policy"])
    assert judge(known).status is Status.FOUND


def test_an_api_that_a_gateway_hides_is_not_taken_for_an_old_broker():
    """Kroxylicious before 0.12 leaves the finalized features in what it takes the APIs out of."""
    old = finding(facts(**with_apis(apis(0, {}), apis(0, {}))), "heartbeat_api")
    assert "upgrade every broker" in old.do
    assert "gateway" not in old.do
    hidden = finding(facts(**with_apis(apis(0, {"group.version": 1}))), "heartbeat_api")
    assert "although the feature group.version 1 is finalized" in hidden.what
    assert "a gateway between Epochgate and the brokers hides the API" in hidden.do


@pytest.mark.parametrize("check", FAULTS)
def test_what_is_accepted_is_listed_and_counts_for_nothing(check):
    known = facts(**FAULTS[check])
    everything = {one.check for one in judge(known).findings}
    report = judge(known, everything)
    assert report.status is Status.PASSED
    assert all(one.accepted for one in report.findings)
    assert statuses(known, everything)[check] is Status.ACCEPTED


def test_checks_and_sources_may_be_accepted():
    assert {check.name for check in CHECKS} < acceptable()
    assert "acls" in acceptable()
    assert len(acceptable()) == len(CHECKS) + len(Source)


def test_only_groups_that_the_policy_translates_are_judged():
    policy = Policy(default=Mode.OBSERVE, rules=(Rule(mode=Mode.TRANSLATE, group="g"),))
    groups = (classic("g", assignor="stream"), classic("other", assignor="stream"))
    known = facts(policy=policy, groups=groups)
    assert finding(known, "translatable").groups == ("g",)
    assert judge(known).to_move == 1


def test_an_assignor_that_the_policy_allows_is_translatable():
    policy = Policy(default=Mode.TRANSLATE, assignors_allowed=("homemade",))
    groups = (classic(assignor="homemade"),)
    assert statuses(facts(groups=groups))["translatable"] is Status.FOUND
    assert statuses(facts(groups=groups, policy=policy))["translatable"] is Status.PASSED


def test_the_classes_of_kafkas_own_assignors_are_known_by_their_names():
    own = "org.apache.kafka.coordinator.group.assignor."
    listed = f"{own}UniformAssignor,{own}RangeAssignor"
    assert statuses(facts(brokers=(broker(group_consumer_assignors=listed),)))["assignors"] is Status.PASSED


def test_a_setting_that_a_broker_leaves_out_is_unknown_and_not_its_default():
    told = {name: value for name, value in SETTINGS.items() if name != "group.consumer.max.size"}
    known = facts(brokers=(broker(1), msgspec.structs.replace(broker(2), settings=told)))
    said = statuses(known)
    assert said["max_size"] is said["bug_full_group"] is Status.UNKNOWN
    assert said["migration_policy"] is Status.PASSED
    assert finding(known, "settings").what == "broker 2: not told are group.consumer.max.size"


def test_an_assignor_that_may_be_a_class_of_somebody_is_unknown():
    rule = Rule(mode=Mode.TRANSLATE, pattern=".*", assignor="zoned")
    known = facts(
        brokers=(broker(group_consumer_assignors="uniform,com.example.Zoned"),), policy=Policy(rules=(rule,))
    )
    assert statuses(known)["assignors"] is Status.UNKNOWN


def test_a_rule_of_another_type_than_its_group_is_found():
    policy = Policy(rules=(Rule(mode=Mode.OBSERVE, group="g", type=GroupType.SHARE),))
    assert "another type" in finding(facts(policy=policy), "group_type").what


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, Status.FOUND), (200, Status.FOUND), (201, Status.PASSED)]
)
def test_restarts_of_a_static_member_are_no_duplicates(seconds, status):
    events = tuple(joined(f"m{number}", "i", seconds * number) for number in range(4))
    assert statuses(facts(proxy=snapshot(seen(events=events))))["static_duplicates"] is status


def test_members_that_other_replicas_serve_do_not_come_past_the_proxy():
    proxies = snapshot(seen("g", member("g-m0")), seen("h", member("h-m0")))
    assert (
        statuses(facts(groups=(classic("g"), classic("h")), proxy=proxies))["past_the_proxy"] is Status.PASSED
    )


@pytest.mark.parametrize(
    "view",
    [
        seen("g", member("o"), state="Rebalancing"),
        seen("g", member("o"), protocol="mixed"),
        seen("g", member("o"), events=(joined("m", "i", 1_000_000),)),
    ],
    ids=["rebalancing", "mixed", "just joined"],
)
def test_members_of_a_group_in_motion_are_not_judged(view):
    found = judge(facts(proxy=snapshot(view, time=1_000_020)))
    assert [(one.check, one.unknown, one.groups) for one in found.findings] == [
        ("past_the_proxy", True, ("g",))
    ]
    later = snapshot(seen("g", member("o"), events=(joined("m", "i", 1_000_000),)), time=1_000_031)
    assert statuses(facts(proxy=later))["past_the_proxy"] is Status.FOUND


def test_what_harms_a_move_comes_first_and_taken_ports_are_one_finding():
    known = facts(
        taken_ports={f"0.0.0.0:{port}": "it is taken" for port in range(9100, 9112)},
        proxy=snapshot(),
        version=Version(4, 4, 0),
        groups=(classic(**STATIC),),
    )
    found = [one for one in judge(known).findings if not one.unknown]
    assert [one.check for one in found][:2] == ["past_the_proxy", "ports"]
    assert (
        found[1].what
        == "the proxy can't listen on 0.0.0.0:9100 of this machine (and on 11 other ports of it): it is taken"
    )
    assert found[-1].check.startswith("bug_")


@pytest.mark.parametrize(
    ("session_ms", "status"), [(44_999, Status.FOUND), (45_000, Status.PASSED), (-1, Status.FOUND)]
)
def test_several_processes_without_a_log_are_well_only_for_clients_as_patient_as_the_broker(
    session_ms, status
):
    proxy = snapshot(seen("g", member("g-m0", session_timeout_ms=session_ms)))
    assert statuses(facts(config=TWO_PROCESSES, proxy=proxy))["failover"] is status


def test_a_group_is_ended_by_its_own_session_timeout():
    proxy = snapshot(seen("g", member("g-m0", session_timeout_ms=50_000)))
    groups = (classic(settings={"consumer.session.timeout.ms": "55000"}),)
    assert statuses(facts(proxy=proxy))["client_sessions"] is Status.FOUND
    assert statuses(facts(proxy=proxy, groups=groups))["client_sessions"] is Status.PASSED


@pytest.mark.parametrize(
    ("name", "first", "before", "last", "after"),
    [
        ("bug_join_versions", "4.0.0", None, "4.0.0", "4.0.1"),
        ("bug_describe_pending", "4.0.0", None, "4.2.0", "4.3.0"),
        ("bug_share_session", "4.1.0", "4.0.1", "4.1.9", "4.2.0"),
        ("bug_streams_deleted", "4.2.0", "4.1.9", "4.4.0", None),
    ],
)
def test_a_known_bug_is_found_in_its_releases_only(name, first, before, last, after):
    known = facts(groups=(OTHER,))

    def at(version: str) -> Status:
        return statuses(msgspec.structs.replace(known, version=Version.parse(version)))[name]

    assert at(first) is at(last) is Status.FOUND
    assert {at(one) for one in (before, after) if one is not None} == {Status.PASSED}


@pytest.mark.parametrize("text", ["4", "4.1", "v4.1.0", "4.1.x", "4.1.0.1", "4.1.\u0663", ""])
def test_a_release_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"such as 4\.4\.0"):
        Version.parse(text)


def test_many_groups_with_one_mistake_make_one_finding():
    own = {"consumer.heartbeat.interval.ms": "30000"}
    groups = tuple(classic(f"g{number:02}", settings=own) for number in range(30))
    found = finding(facts(groups=groups, brokers=(broker(1), broker(2))), "heartbeat_interval")
    assert len(found.groups) == 30
    assert "30000 ms and the session timeout 45000 ms" in found.what


def test_reasons_are_told_apart_and_nothing_is_said_twice():
    brokers = tuple(
        msgspec.structs.replace(broker(number), settings=Unknown("not authorized", "allow it"))
        for number in (1, 2)
    )
    gap = finding(facts(brokers=brokers), "settings")
    assert gap.what == "the settings of brokers 1, 2: not authorized"


@pytest.mark.parametrize("value", ["\N{SUPERSCRIPT TWO}", "--5", "-", "9" * 5_000, "\x1b[2J"])
def test_a_setting_that_is_no_number_is_none(value: str) -> None:
    names = {name for told in TOLD.values() for name in told} | {"group.max.size"}
    told = facts(brokers=(msgspec.structs.replace(broker(1), settings=dict.fromkeys(names, value)),))
    assert number(told.settings()[1], "group.max.size") is None
    judge(told)
