"""`epochgate policy plan`: what a policy would change in a running proxy."""

import http.server
import json
import subprocess
import sys
import threading

import msgspec
import pytest

from protocol_codecs.classic_clients import LOST_AT_ONCE
from proxy.config.policy_plan import (
    AssignorChange,
    LiveFleet,
    LiveGroup,
    LiveMember,
    LiveProgress,
    LiveReplica,
    plan,
    plan_lines,
    summary,
    unused,
)
from translation.policy.client_offer import ClientOffer
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule

POLICY = Policy(
    default=Mode.OBSERVE,
    rules=(
        Rule(group="payments", mode=Mode.TRANSLATE, assignor="range"),
        Rule(pattern="web-.*", mode=Mode.TRANSLATE),
        Rule(group="web-old", mode=Mode.OBSERVE),
        Rule(pattern="evil-.*", mode=Mode.REJECT),
    ),
)


def live(group, mode, members=2, not_translatable=None, assignor=None, protocol="", client=None, notes=()):
    return LiveGroup(
        client=client,
        notes=notes,
        id=group,
        mode=Mode(mode),
        assignor=assignor,
        members=(LiveMember(protocol=protocol),) * members,
        why_not=not_translatable,
    )


def test_groups_whose_mode_and_assignor_stay_are_not_in_the_plan():
    stay = [live("payments", "translate", assignor="range"), live("else", "observe")]
    assert plan(POLICY, stay) == []


def test_a_plan_says_the_steps_of_a_move_and_how_long_they_hold():
    rule = Rule(group="payments", mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=600)
    assert list(plan_lines(plan(Policy(rules=(rule,)), [live("payments", "observe", members=10)]))) == [
        (
            "payments: observe -> translate, 10 members, by rule 1 (group payments); converted in place in steps of "
            "1, 50%, 100%, held for 20 min"
        )
    ]


@pytest.mark.parametrize(
    ("now", "group", "change"),
    [
        ("uniform", "payments", "uniform -> range, 2 members, by rule 1 (group payments)"),
        (None, "payments", "the clients' own -> range, 2 members, by rule 1 (group payments)"),
        ("range", "web-1", "range -> the clients' own, 2 members, by rule 2 (groups that match web-.*)"),
    ],
)
def test_a_translated_group_that_gets_another_assignor_is_in_the_plan(now, group, change):
    changes = plan(POLICY, [live(group, "translate", assignor=now)])
    assert [str(one) for one in changes] == [
        (
            f"{group}: assignor {change}; takes effect at the broker's next assignment (since Kafka 4.4: at once); "
            "members whose partitions change rejoin"
        )
    ]
    assert list(summary(changes, 1)) == ["1 group gets another assignor: 2 members", "0 groups unchanged"]


def test_an_assignor_of_a_group_that_is_not_translated_is_no_change():
    policy = Policy(rules=(Rule(group="g", mode=Mode.OBSERVE, assignor="range"),))
    assert plan(policy, [live("g", "observe")]) == []
    assert plan(POLICY, [live("payments", "translate", not_translatable="a connect group")]) == []


def offers(*assignors, user_data=(), protocol_type="consumer"):
    return ClientOffer(
        protocol_type=protocol_type, assignors=assignors, user_data=user_data, rack_aware=False
    )


OURS = Rule(group="g", mode=Mode.TRANSLATE)
OURS_BY_RANGE = Rule(group="g", mode=Mode.TRANSLATE, assignor="range")
UNKNOWN = "assignor 'ours' is unknown"
WITH_DATA = "user data in the subscriptions of assignor 'ours'"


@pytest.mark.parametrize(
    ("client", "rule", "allowed", "why_not"),
    [
        (offers("ours"), OURS, (), UNKNOWN),
        (offers("ours"), OURS, ("ours",), None),
        (offers("ours"), OURS_BY_RANGE, (), UNKNOWN),
        (offers("ours", user_data=("ours",)), OURS, ("ours",), WITH_DATA),
        (offers("ours", user_data=("ours",)), OURS_BY_RANGE, ("ours",), None),
        (offers("stream"), OURS_BY_RANGE, ("stream",), "assignor 'stream' is of Kafka Streams"),
        (offers("v0", protocol_type="sr"), OURS, (), "protocol type is 'sr', not 'consumer'"),
    ],
)
def test_whether_a_group_can_be_translated_is_judged_by_the_policy_of_the_plan(
    client, rule, allowed, why_not
):
    policy = Policy(rules=(rule,), assignors_allowed=allowed)
    (move,) = plan(policy, [live("g", "observe", not_translatable=UNKNOWN, client=client)])
    assert move.not_translatable == why_not
    assert (move.options is None) is (why_not is None)


def test_a_reason_that_is_not_the_clients_stays():
    for why_not in (
        "the broker has no ConsumerGroupHeartbeat v1",
        "user data in the assignments of assignor 'a'",
    ):
        (move,) = plan(POLICY, [live("web-1", "observe", not_translatable=why_not, client=offers("range"))])
        assert move.not_translatable == why_not


def test_the_options_and_what_is_lost_stand_below_a_group():
    policy = Policy(rules=(OURS,))
    lines = list(plan_lines(plan(policy, [live("g", "observe", client=offers("ours"), notes=("racks",))])))
    assert lines[0].endswith("still passes through: assignor 'ours' is unknown")
    assert lines[1].startswith("  options: name it in the policy's assignors_allowed")
    assert len(lines) == 2, "a group that is not translated loses nothing"
    allowed = Policy(rules=(OURS,), assignors_allowed=("ours",))
    lines = list(plan_lines(plan(allowed, [live("g", "observe", client=offers("ours"), notes=("racks",))])))
    assert lines[1:] == ["  note: racks"]
    assert list(plan_lines(plan(Policy(), [live("g", "translate", client=offers("ours"))])))[1:] == []


def test_a_group_in_mode_translate_whose_assignor_is_allowed_now_or_no_longer_is_in_the_plan():
    allowed, group = (
        Policy(rules=(OURS,), assignors_allowed=("ours",)),
        live("g", "translate", client=offers("ours")),
    )
    assert plan(allowed, [group]) == []
    (change,) = changes = plan(Policy(rules=(OURS,)), [group])
    assert str(change) == f"g: 2 members, by rule 1 (group g); members that come anew pass through: {UNKNOWN}"
    assert list(summary(changes, 1)) == [
        "1 group can't be translated any more: 2 members",
        "0 groups unchanged",
    ]
    (change,) = changes = plan(
        allowed, [live("g", "translate", not_translatable=UNKNOWN, client=offers("ours"))]
    )
    assert str(change) == (
        f"g: 2 members, by rule 1 (group g); can be translated now, which was refused: {UNKNOWN}"
    )
    assert list(summary(changes, 1)) == ["1 group can be translated now: 2 members", "0 groups unchanged"]


def test_rules_that_decide_for_no_group_are_named():
    assert list(unused(POLICY, [live("payments", "observe"), live("web-old", "observe")])) == [
        "rule 3 (group web-old) applies to none of these groups",
        "rule 4 (groups that match evil-.*) applies to none of these groups",
    ]


def test_the_plan_names_group_modes_members_rule_and_how_it_moves():
    (move,) = plan(POLICY, [live("payments", "observe", members=3)])
    assert str(move) == (
        "payments: observe -> translate, 3 members, by rule 1 (group payments); converted in place"
    )


def of_fleet(mode, here, *elsewhere, at_broker=0):
    """A group with members at other replicas, of which the broker has so many that do not come through this one."""
    fleet = LiveFleet(
        members=here + sum(elsewhere), served_by=tuple(LiveReplica(members=count) for count in elsewhere)
    )
    progress = LiveProgress(elsewhere=max(at_broker, sum(elsewhere)))
    return msgspec.structs.replace(live("payments", mode, members=here), fleet=fleet, progress=progress)


def test_the_members_of_the_fleet_are_counted():
    back = Policy(default=Mode.OBSERVE)
    (move,) = plan(back, [of_fleet("translate", 2, 5, 3)])
    assert (move.members, move.unnamed) == (10, 0)
    assert str(move) == (
        "payments: translate -> observe, 10 members, by the default; members rejoin as classic ones, in one rebalance"
    )
    assert list(summary([move], 1)) == ["1 group moves to observe: 10 members", "0 groups unchanged"]
    (change,) = plan(POLICY, [of_fleet("translate", 2, 5, 3)])
    assert isinstance(change, AssignorChange)
    assert change.members == 10


def test_members_that_only_the_broker_knows_are_not_counted_but_told():
    """The member log has no member that another replica passes through."""
    (move,) = plan(POLICY, [of_fleet("observe", 2, at_broker=6)])
    assert str(move) == (
        "payments: observe -> translate, 2 members and 6 that the broker has and the member log does not name, "
        "by rule 1 (group payments); converted in place"
    )
    (without_log,) = plan(POLICY, [live("payments", "observe")])
    assert without_log.unnamed == 0


def test_a_group_of_which_no_member_is_here_is_moved_by_the_others():
    (move,) = plan(Policy(default=Mode.OBSERVE), [of_fleet("translate", 0, 4)])
    assert str(move).endswith("4 members, by the default; members rejoin as classic ones, in one rebalance")


def test_a_group_that_goes_back_is_moved_by_the_default():
    (move,) = plan(POLICY, [live("else", "translate", members=1)])
    assert str(move) == (
        "else: translate -> observe, 1 member, by the default; members rejoin as classic ones, in one rebalance"
    )


def test_nothing_happens_at_once_in_a_group_without_members():
    (empty,) = plan(POLICY, [live("web-1", "observe", members=0)])
    assert str(empty).endswith("; applies to members that join later")


def test_a_group_that_has_to_be_empty_names_the_applications_that_its_move_can_end():
    lines = list(plan_lines(plan(POLICY, [live("web-1", "observe", notes=(LOST_AT_ONCE,))])))
    assert lines[0].endswith("; moved all at once")
    assert lines[1:] == [f"  note: {LOST_AT_ONCE}"]


def test_a_group_that_cannot_be_translated_says_why():
    (move,) = plan(POLICY, [live("web-connect", "observe", not_translatable="protocol type connect")])
    assert str(move).endswith("; still passes through: protocol type connect")


def test_a_rejected_group_says_when():
    (move,) = plan(POLICY, [live("evil-1", "observe")])
    assert str(move).endswith("; members are refused when they join again")


@pytest.mark.parametrize("protocol", ["translated", "classic", "consumer"])
def test_members_of_another_type_are_in_the_plan(protocol):
    policy = Policy(rules=(Rule(group="jobs", mode=Mode.OBSERVE, type=GroupType.SHARE),))
    (change,) = plan(policy, [live("jobs", "observe", members=3, protocol=protocol)])
    assert str(change) == (
        "jobs: 3 members of another type than share, by rule 1 (group jobs); refused when they join again"
    )
    assert list(summary([change], 2)) == [
        "1 group has members of another type: 3 members",
        "1 group unchanged",
    ]


@pytest.mark.parametrize(
    ("rule", "protocol"),
    [
        (Rule(group="jobs", mode=Mode.OBSERVE, type=GroupType.CONSUMER), "classic"),
        (Rule(group="jobs", mode=Mode.OBSERVE, type=GroupType.SHARE), ""),
        (Rule(group="jobs", mode=Mode.OBSERVE, type=GroupType.SHARE), "of a newer proxy"),
        (Rule(group="jobs", mode=Mode.OBSERVE), "classic"),
    ],
)
def test_members_that_may_stay_are_not_in_the_plan(rule, protocol):
    assert plan(Policy(rules=(rule,)), [live("jobs", "observe", protocol=protocol)]) == []


def test_a_group_that_moves_and_has_members_of_another_type_is_counted_once_as_changed():
    policy = Policy(rules=(Rule(group="jobs", mode=Mode.OBSERVE, type=GroupType.STREAMS),))
    changes = plan(policy, [live("jobs", "translate", protocol="translated")])
    assert len(changes) == 2
    assert list(summary(changes, 3))[-1] == "2 groups unchanged"


def test_the_first_rule_that_matches_decides():
    (move,) = plan(POLICY, [live("web-old", "observe")])
    assert move.after is Mode.TRANSLATE
    assert move.by == "rule 2 (groups that match web-.*)"


def test_the_summary_counts():
    groups = [
        live("web-1", "observe", members=3),
        live("web-2", "observe", members=4, not_translatable="protocol type connect"),
        live("gone", "translate", members=1),
        live("same", "observe"),
    ]
    assert list(summary(plan(POLICY, groups), len(groups))) == [
        "1 group moves to observe: 1 member",
        "2 groups move to translate, 1 of them not translatable: 3 members",
        "1 group unchanged",
    ]


@pytest.fixture
def admin():
    """An admin port that answers what it is told to; `answer` is (status, body)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = server.answer if self.path.partition("?")[0] == "/api/groups" else (404, b"")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.answer = (200, b'{"groups": []}')
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def run_plan(tmp_path, url, *more):
    file = tmp_path / "policy.yaml"
    file.write_text('rules: [{pattern: "web-.*", mode: translate}]\n')
    command = [sys.executable, "-m", "proxy", "policy", "plan", "--admin", url, str(file), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_asks_the_admin_port_and_prints_the_plan(tmp_path, admin):
    blank = {"mode": "observe", "assignor": None, "members": [], "why_not": None}
    groups = [
        {**blank, "id": "web-1", "members": [{"id": "m"}], "more": 1},
        {**blank, "id": "else"},
    ]
    admin.answer = (200, json.dumps({"v": 1, "groups": groups, "left_out": 3}).encode())
    done = run_plan(tmp_path, f"http://127.0.0.1:{admin.server_port}/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        ("web-1: observe -> translate, 1 member, by rule 1 (groups that match web-.*); converted in place"),
        "1 group moves to translate: 1 member",
        "1 group unchanged",
        "3 groups not examined: the proxy returns only its first 2",
    ]


def test_the_plan_as_json(tmp_path, admin):
    blank = {"mode": "observe", "assignor": None, "members": [], "why_not": None}
    admin.answer = (200, json.dumps({"groups": [{**blank, "id": "else"}], "left_out": 3}).encode())
    report = json.loads(run_plan(tmp_path, f"127.0.0.1:{admin.server_port}", "-o", "json").stdout)
    assert report["admin"] == f"http://127.0.0.1:{admin.server_port}"
    assert (report["changes"], report["unused_rules"]) == ([], [1])
    assert (report["groups"], report["left_out"]) == (1, 3)
    admin.answer = (200, json.dumps({"groups": [{**blank, "id": "web-1"}]}).encode())
    report = json.loads(run_plan(tmp_path, f"127.0.0.1:{admin.server_port}", "-o", "json").stdout)
    assert report["changes"] == [
        {
            "changes": "mode",
            "group": "web-1",
            "members": 0,
            "unnamed": 0,
            "before": "observe",
            "after": "translate",
            "by": "rule 1 (groups that match web-.*)",
            "not_translatable": None,
            "options": None,
            "steps": None,
            "hold_s": 0,
            "wave": None,
            "notes": [],
        }
    ]
    assert report["unused_rules"] == []


@pytest.mark.parametrize("answer", [(500, b""), (200, b"<html>"), (200, b'{"groups": [{"group": "g"}]}')])
def test_an_answer_that_cannot_be_used_is_exit_1_without_a_traceback(tmp_path, admin, answer):
    admin.answer = answer
    done = run_plan(tmp_path, f"http://127.0.0.1:{admin.server_port}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: http://127.0.0.1:{admin.server_port}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "127.0.0.1:1"])
def test_a_proxy_that_is_not_there_is_exit_1(tmp_path, address):
    done = run_plan(tmp_path, address)
    assert done.returncode == 1
    assert done.stderr == "error: http://127.0.0.1:1: [Errno 111] Connection refused\n"


def test_an_address_that_is_none_is_exit_2(tmp_path):
    done = run_plan(tmp_path, "file:///etc/passwd")
    assert done.returncode == 2
    assert done.stderr == "error: --admin: expected host:port or a URL, got 'file:///etc/passwd'\n"


def test_a_group_id_can_not_command_the_terminal(tmp_path, admin):
    hostile = "web-\x1b[2J\r\n\u202e"
    group = {"id": hostile, "mode": "observe", "assignor": None, "members": [], "why_not": hostile}
    admin.answer = (200, json.dumps({"groups": [group]}).encode())
    done = run_plan(tmp_path, f"http://127.0.0.1:{admin.server_port}")
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\r", "\u202e"} & set(done.stdout)
    assert done.stdout.startswith("web-\\x1b[2J\\r\\n\\u202e: observe -> translate")


@pytest.mark.parametrize("group_id", ["web-a\nb", "web-\n", "web-\r\u2028"])
def test_a_line_break_does_not_evade_a_pattern(group_id):
    assert Rule(pattern="web-.*", mode=Mode.REJECT).matches(group_id)
