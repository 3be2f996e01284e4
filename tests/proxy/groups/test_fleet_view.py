"""What the API, the pages and `epochgate status` show of a fleet: members that other replicas serve, and the log."""

import json
from functools import partial

import msgspec
import pytest
import trio
from rich.console import Console

from proxy.admin.admin_http import SingleProcessBackend, admin_app
from proxy.cli.status import rendered
from proxy.config.schema import Visibility
from proxy.groups.fleet_join import with_fleet
from proxy.groups.snapshot import BrokerView, Snapshot
from proxy.metrics.registry import Metrics
from tests.proxy.admin.site import NOW_S, PAGE, Http, Site
from tests.proxy.admin.test_pages import CONTROL, HOSTILE
from tests.proxy.groups.events import changed, life, topic
from tests.proxy.groups.fleet import FleetLog, replica
from translation.member_log.records import Ignored, Kind, Writer
from translation.policy.policy import Mode, Policy, Rule

OTHER, THIRD = replica("other"), replica("third")


class FleetSite(Site):
    """The admin port of ``host``, whose member log the test fills."""

    def __init__(self, limits: Visibility | None = None) -> None:
        super().__init__()
        self.log = FleetLog()
        reader = self.log.reader(self.registry, limits)
        answers = {
            "groups": partial(self._answer, events=False),
            "groups with events": partial(self._answer, events=True),
            "fleet": partial(reader.read, members=False),
            "fleet with members": partial(reader.read, members=True),
        }
        backend = SingleProcessBackend(Metrics(), self.health, answers)
        self.http = Http(admin_app(backend, limits or Visibility(page_groups=PAGE)))
        self.health.ready()
        self.log.ready(NOW_S - 2)
        self.log.probe(OTHER, NOW_S - 3)

    def api(self, path: str = "/api/groups") -> dict:
        page = self.http.get(path)
        assert page.status_code == 200
        return json.loads(page.text)

    def joined(self) -> Snapshot:
        return msgspec.json.decode(self.http.get("/api/groups").content, type=Snapshot)

    def status(self, group: str | None = None) -> str:
        console = Console(width=250)
        with console.capture() as captured:
            console.print(rendered(self.joined(), one=group is not None))
        return captured.get()


@pytest.fixture
def site() -> FleetSite:
    return FleetSite()


def test_a_member_that_another_replica_serves_is_shown_with_its_replica_and_the_age_of_its_record(site):
    site.record(life("m-1", owned=topic(0)), 990)
    site.log.record("g", "m-1", site.log.replica, 990)
    site.log.record("g", "m-2", OTHER, 940, instance_id="i-2", generation=4)
    (group,) = site.api()["groups"]
    assert [one["id"] for one in group["members"]] == ["m-1"]
    assert group["fleet"] == {
        "members": 2,
        "served_by": [{"replica": "other", "replica_id": OTHER.first.hex(), "members": 1}],
        "elsewhere": [
            {
                "id": "m-2",
                "instance": "i-2",
                "replica": "other",
                "replica_id": OTHER.first.hex(),
                "state": "served",
                "generation": 4,
                "written_at": 940,
            }
        ],
        "left_out": 0,
    }
    assert group["progress"]["by"] == "log"
    assert (group["progress"]["done"], group["progress"]["total"], group["progress"]["elsewhere"]) == (
        2,
        2,
        1,
    )
    page = site.http.get("/groups/g").text
    for said in ("Members at other replicas", "m-2", "i-2", "other", "60 s ago", "1 here, 2 in the fleet"):
        assert said in page
    assert "without classic ones" not in page
    for said in ("m-2", "other", "served", "60 s ago", "2 members in the fleet"):
        assert said in site.status("g")
    assert "1 translated, 1 elsewhere; 2 in the fleet" in site.status()


def test_a_group_that_only_other_replicas_serve_is_listed_with_the_policy_of_this_one(site):
    site.registry.set_policy(Policy(default=Mode.OBSERVE, rules=(Rule(mode=Mode.TRANSLATE, group="g"),)), 0)
    site.log.record("g", "m-1", OTHER, 990)
    site.log.record("g", "m-2", OTHER, 990)
    (group,) = site.api()["groups"]
    assert (group["id"], group["mode"], group["rule"]) == ("g", "translate", "rule 1: group g")
    assert (group["state"], group["members"], group["fleet"]["members"]) == ("Elsewhere", [], 2)
    assert site.api("/api/groups/g")["fleet"] == group["fleet"]
    assert 'href="/groups/g"' in site.http.get("/").text
    assert "2 elsewhere" in site.status()


def test_without_a_member_log_nothing_is_added():
    site = Site()
    site.record(life(), 990)
    answer = json.loads(site.http.get("/api/groups").text)
    assert answer["fleet"] is None
    assert answer["groups"][0]["fleet"] is None
    for path in ("/", "/groups/g"):
        text = site.http.get(path).text
        assert "in the fleet" not in text
        assert "replicas" not in text.lower().replace(", ".join(answer["replicas"]), "")


def test_only_members_of_replicas_that_write_the_log_count(site):
    site.record(life(), 990)
    site.log.probe(THIRD, NOW_S - 600)
    for member, by, kind in (
        ("m-2", THIRD, Kind.SERVED),
        ("m-3", OTHER, Kind.EXPIRING),
        ("m-4", OTHER, Kind.RELAYED),
        ("m-5", OTHER, Kind.SERVED),
        ("m-6", OTHER, Kind.ENDED),
    ):
        site.log.record("g", member, by, 900, kind)
    site.log.record("left", "m-7", THIRD, 900)
    answer = site.api()
    (group,) = answer["groups"]
    listed = [(one["id"], one["state"]) for one in group["fleet"]["elsewhere"]]
    assert listed == [("m-5", "served"), ("m-2", "silent"), ("m-3", "expiring")]
    assert group["fleet"]["members"] == 2
    replicas = {
        one["name"]: (one["silent"], one["members"], one["here"]) for one in answer["fleet"]["replicas"]
    }
    assert replicas == {"host": (False, 0, True), "other": (False, 1, False), "third": (True, 2, False)}
    assert answer["fleet"]["members"] == 1
    assert "silent: its members are not counted" in site.http.get("/").text
    for one in (OTHER, site.log.replica):
        site.log.probe(one, NOW_S + 3_001)
    answer = site.api()
    assert [one["name"] for one in answer["fleet"]["replicas"]] == ["host", "other"], "silent for an hour"
    assert "m-2" not in {one["id"] for one in answer["groups"][0]["fleet"]["elsewhere"]}


def test_a_replica_that_has_replaced_its_producer_is_the_same(site):
    site.log.record("g", "m-1", OTHER, 300)
    site.log.probe(site.log.replica, NOW_S + 500)
    assert site.api()["groups"] == []
    site.log.probe(OTHER, NOW_S + 490, writer=Writer(b"its second one--"))
    (group,) = site.api()["groups"]
    assert [one["replica"] for one in group["fleet"]["elsewhere"]] == ["other"]
    assert len(site.api()["fleet"]["replicas"]) == 2


def test_a_replica_whose_probes_do_not_name_it_is_named_by_its_records(site):
    nameless = Writer(b"an older version")
    site.log.replicas.heard(nameless, None, round((NOW_S - 1) * 1000))
    site.log.record("g", "m-1", type(OTHER)(nameless, "older"), 990)
    (group,) = site.api()["groups"]
    (member,) = group["fleet"]["elsewhere"]
    assert (member["replica"], member["replica_id"], member["state"]) == ("older", nameless.hex(), "served")


def test_the_health_of_the_log(site):
    fleet = site.api()["fleet"]
    assert (fleet["state"], fleet["partitions_away"], fleet["newest_record_at"]) == ("ready", 0, 998)
    assert "newest record read: 2.0 s ago; 0 written and not read back" in site.http.get("/").text
    assert "member log: ready, newest record 2.0 s ago, 0 not read back" in site.status()
    site.log.log.handle_time(60.0)  # a probe is due
    site.log.log.handle_time(63.0)  # and is not read back
    fleet = site.api()["fleet"]
    assert (fleet["state"], fleet["partitions_away"]) == ("away", 2)
    assert "member log: away: 2 of 2 partitions" in site.status()
    assert "(2 of 2 partitions)" in site.http.get("/").text
    site.log.refused = "no right"
    assert site.api()["fleet"]["reason"] == "no right"
    for said in (site.status(), site.http.get("/").text):
        assert "no right" in said


def test_records_that_are_none_of_the_fleet_s_are_shown_with_their_number_and_why(site):
    assert site.api()["fleet"]["ignored"] == {}
    assert "none of the fleet" not in site.http.get("/").text
    site.log.ignored.update({Ignored.KEY: 2, Ignored.VALUE: 3})
    assert site.api()["fleet"]["ignored"] == {"key": 2, "value": 3}
    assert "5 records ignored that are none of the fleet" in site.http.get("/").text
    assert "5 ignored that are none of the fleet's (key, value)" in site.status()


def test_a_log_that_is_not_read_yet_says_so():
    site = FleetSite()
    site.log.log = FleetLog().log
    fleet = site.api()["fleet"]
    assert (fleet["state"], fleet["newest_record_at"]) == ("reading", None)
    assert "nothing read yet" in site.http.get("/").text
    assert "member log: reading, nothing read" in site.status()


def test_what_a_writer_of_the_log_makes_up_stays_text(site):
    hostile = replica(HOSTILE + CONTROL)
    site.log.probe(hostile, NOW_S)
    site.log.record(HOSTILE, HOSTILE + CONTROL, hostile, 990, instance_id=HOSTILE + CONTROL)
    for path in ("/", f"/groups/?id={HOSTILE.replace('&', '%26').replace('#', '%23')}"):
        text = site.http.get(path).text
        assert "<script>alert" not in text
        assert "alert(1)" in text
        assert "\x1b" not in text
    assert "\x1b[2J" not in site.status("x")
    assert "alert(1)" in site.status("x")


def test_long_texts_are_cut_and_groups_of_too_long_an_id_left_out():
    site = FleetSite(Visibility(id_max_chars=64))
    site.log.probe(replica("r" * 200), NOW_S)
    site.log.record("g", "m" * 200, replica("r" * 200), 990, instance_id="i" * 200)
    site.log.record("x" * 65, "m-1", OTHER, 990)
    (group,) = site.api()["groups"]
    (member,) = group["fleet"]["elsewhere"]
    assert {len(member[name]) for name in ("id", "instance", "replica")} == {64}


def test_members_and_groups_beyond_the_bounds_are_counted_and_not_listed():
    site = FleetSite(Visibility(members_of_group=2, members=5, groups=3, page_groups=PAGE))
    for group in "abcd":
        for member in range(4):
            site.log.record(group, f"m-{member}", OTHER, 990)
    shown = [
        (one["id"], len(one["fleet"]["elsewhere"]), one["fleet"]["left_out"], one["fleet"]["members"])
        for one in site.api()["groups"]
    ]
    assert shown == [("a", 2, 2, 4), ("b", 2, 2, 4), ("c", 1, 3, 4)]
    assert "2 more members" in site.http.get("/groups/a").text
    assert "2 more members" in site.status("a")


def test_groups_of_the_fleet_come_in_pages(site):
    for number in range(5):
        site.log.record(f"g-{number}", "m-1", OTHER, 990)
    site.record(life(group="g-2x"), 990)
    first = site.api("/api/groups?limit=3")
    assert [one["id"] for one in first["groups"]] == ["g-0", "g-1", "g-2"]
    rest = site.api("/api/groups?after=g-2")
    assert [one["id"] for one in rest["groups"]] == ["g-2x", "g-3", "g-4"]
    assert (first["left_out"], rest["left_out"]) == (3, 0)


def test_what_the_broker_says_of_the_progress_stays(site):
    site.record(life(), 990)
    broker = BrokerView(
        asked_at=995.0,
        type="consumer",
        state="Stable",
        classic=1,
        consumer=3,
        epoch=5,
        members=("m-1",),
        error="",
    )
    site.registry.set_broker_view("g", broker)
    site.log.record("g", "m-2", OTHER, 990)
    (group,) = site.api()["groups"]
    assert (group["progress"]["by"], group["progress"]["total"]) == ("broker", 4)
    assert "1 here, 2 in the fleet, without classic ones at other replicas" in site.http.get("/groups/g").text


def test_the_workers_of_one_proxy_are_here_and_its_log_is_as_healthy_as_that_of_the_least_healthy():
    site = FleetSite()
    worker = FleetLog()
    worker.replica = OTHER
    worker.log = type(worker.log)(worker.log.settings, OTHER.first, 0.0)
    site.record(life("m-1"), 990)
    for log in (site.log, worker):
        log.probe(THIRD, NOW_S)
        log.record("g", "m-1", site.log.replica, 990)
        log.record("g", "m-2", OTHER, 990)
        log.record("g", "m-3", THIRD, 990)
    readings = [worker.read(site.registry), site.log.read(site.registry)]
    joined = trio.run(with_fleet, site.snapshot(), readings)
    assert joined.fleet is not None
    assert joined.fleet.state == "reading"
    assert {one.name: one.here for one in joined.fleet.replicas} == {
        "host": True,
        "other": True,
        "third": False,
    }
    (group,) = joined.groups
    assert group.fleet is not None
    assert [one.id for one in group.fleet.elsewhere] == ["m-3"]
    assert group.fleet.served_elsewhere == 1


def test_a_partition_that_a_member_elsewhere_may_own_is_not_said_to_have_no_owner(site):
    site.record(life("m-1", owned=topic(0, 1)), 900)
    site.record([changed("Stable", "CompletingRebalance", "m-1", owned=topic(0))], 950)
    site.record([changed("CompletingRebalance", "Stable", "m-1", owned=topic(0))], 951)
    alone = site.http.get("/groups/g").text
    assert "a partition was without an owner for" in alone
    assert "no owner here" not in alone
    site.log.record("g", "m-2", OTHER, 950)
    together = site.http.get("/groups/g").text
    assert "a partition was without an owner" not in together
    assert "t 1: no owner here" in together


def test_the_mode_and_the_state_are_two_facts(site):
    site.registry.set_policy(Policy(rules=(Rule(mode=Mode.TRANSLATE, group="g"),)), 0)
    site.record(life(), 990)
    assert "mode translate by rule 1: group g; state Stable" in site.status("g")
    text = site.http.get("/groups/g").text
    assert (
        text.index("Mode:")
        < text.index("by rule 1: group g.")
        < text.index("State:")
        < text.index(">Stable<")
    )
