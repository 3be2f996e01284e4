"""What a person sees of a fleet: three replicas, whom each serves, and the member log away and back.

In a real browser, whose page is opened once for each view and never loaded again, and by the dashboard's queries in a
real Prometheus that scrapes all three.
"""

import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page
from support import ROOT
from support.browser import flaws, open_page, rows
from support.clients import CONFLUENT, COOPERATIVE
from support.entry import Proxy, running_proxy
from support.prometheus import Prometheus, running_prometheus
from support.waiting import eventually

from tests.skips import program
from tools.kafka.cluster import Cluster
from translation.member_log.formats import FORMAT_HEADER, FORMATS
from translation.member_log.records import (
    Kind,
    MemberRecord,
    Writer,
    encode_key,
    member_key,
    partition_of,
)

pytestmark = pytest.mark.kafka

FILES = ROOT / "charts" / "epochgate" / "files"
DASHBOARD = FILES / "dashboard.json"
PARTITIONS = 6
LOG_PARTITIONS = 4
TOPIC = "__epochgate_members"
GONE = "a process that is gone"


@dataclass
class Fleet:
    """Three replicas. `page` is that of the first; `log` has the member log alone, so that it can be away alone."""

    replicas: list[Proxy]
    log: Cluster
    page: Page
    prometheus: Prometheus
    errors: list[str]

    def ids(self) -> list[str]:
        """The replica ids, in the order of `replicas`."""
        found = []
        for replica in self.replicas:
            with urllib.request.urlopen(f"{replica.admin}/api/groups", timeout=10) as answer:  # noqa: S310 - our own
                found += [one["id"] for one in json.load(answer)["fleet"]["replicas"] if one["here"]]
        return found

    def panel(self, title: str) -> list[float]:
        """What the first query of a panel of the dashboard gives, in order."""
        (panel,) = [one for one in json.loads(DASHBOARD.read_text())["panels"] if one["title"] == title]
        expression = panel["targets"][0]["expr"].replace("$instance", ".*")
        return sorted(float(one["value"][1]) for one in self.prometheus.ask(expression))

    def served(self) -> dict[str, str]:
        """What the table of replicas says, by replica id: how many members each serves."""
        return {row[""].split()[-1]: row["Serves"] for row in rows(self.page, "replicas")}

    def group(self, group: str) -> dict[str, str]:
        """What the list of groups says of a group."""
        return next((row for row in rows(self.page, "groups") if row[""] == group), {})

    def health(self) -> str:
        """What the page says of the member log."""
        return " ".join(self.page.locator(".tiles div", has_text="Member log").inner_text().split())


@pytest.fixture
def fleet(kafka, own_kafka, folder) -> Iterator[Fleet]:
    chromium, prometheus = program("chromium", "chromium"), program("prometheus", "prometheus")
    log = own_kafka()
    settings = {"kafka": {"bootstrap.servers": log.bootstrap}, "partitions": LOG_PARTITIONS, "replication": 1}
    errors: list[str] = []
    with contextlib.ExitStack() as stack:
        replicas = [
            stack.enter_context(
                running_proxy(kafka.bootstrap, folder / f"proxy-{number}", sole_process=False, fleet=settings)
            )
            for number in range(3)
        ]
        page = stack.enter_context(open_page(chromium, replicas[0].admin, errors))
        targets = [replica.scrape_target for replica in replicas]
        watching = running_prometheus(prometheus, targets, FILES / "rules.yaml", folder / "prometheus")
        yield Fleet(replicas, log, page, stack.enter_context(watching), errors)


def leave_a_record(bootstrap: str, group: str, member: str) -> None:
    """Write that a process which never probes serves a member: what a replica that died leaves behind for days."""
    key, writer = member_key(group, member), Writer(b"no longer there!")
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        TOPIC,
        key=encode_key(key, writer),
        value=FORMATS[1].encode(MemberRecord(Kind.SERVED, 0, first=True, server=GONE)),
        partition=partition_of(key, LOG_PARTITIONS),
        headers={FORMAT_HEADER: FORMATS[1].header},
    )
    assert producer.flush(30) == 0


def test_a_person_sees_who_serves_whom_and_the_log_away_and_back(kafka, fleet, consumers, folder, group):
    page, topic = fleet.page, kafka.new_topic(partitions=PARTITIONS)
    group, other_group = f"translate-{group}", f"translate-{group}-other"
    members = [
        consumers.start(CONFLUENT, replica.bootstrap, group, topic, COOPERATIVE) for replica in fleet.replicas
    ]
    alone = consumers.start(CONFLUENT, fleet.replicas[2].bootstrap, other_group, topic, COOPERATIVE)
    consumers.wait_until(
        lambda: [len(one.owned()) for one in (*members, alone)] == [2, 2, 2, PARTITIONS],
        "all have their partitions",
    )
    leave_a_record(fleet.log.bootstrap, group, "left-behind")
    first, second, third = fleet.ids()
    left_behind = b"no longer there!".hex()
    eventually(
        fleet.served,
        lambda seen: seen == {first: "1", second: "1", third: "2", left_behind: "1"},
        what="the page says whom each replica serves",
    )
    shown = {row[""].split()[-1]: row for row in rows(page, "replicas")}
    assert [" here " in shown[one][""] for one in (first, second, third)] == [True, False, False]
    for one in (first, second, third):
        assert re.fullmatch(r"[\d.]+ m?s ago", shown[one]["Last probe"]), "a probe every 30 s"
    assert shown[left_behind][""].startswith(GONE)
    assert shown[left_behind]["Last probe"] == "never silent: its members are not counted"
    assert re.fullmatch(
        r"Member log ready newest record read: [\d.]+ m?s ago; 0 written and not read back", fleet.health()
    )
    assert "Translated members in the fleet 4" in " ".join(page.locator("main").inner_text().split())
    eventually(
        lambda: fleet.group(group),
        lambda row: row.get("State") == "Stable" and "1 here, 3 in the fleet" in row["Members"],
        what="the list says how many members of the group are here",
    )
    assert fleet.group(other_group)["State"] == "Elsewhere"
    assert "1 elsewhere" in fleet.group(other_group)["Members"]
    assert "0 here, 1 in the fleet" in fleet.group(other_group)["Members"]
    assert_it_fits(fleet, folder / "groups")
    eventually(
        lambda: fleet.panel("Members by replica"), lambda seen: seen == [1, 1, 2], what="as on the page"
    )
    counts = ("Translated members", "Replicas in contact", "Replicas silent", "Members in the log, by state")
    assert [fleet.panel(title) for title in counts] == [[4], [3], [1], [0, 1, 4]]
    assert fleet.panel("Partitions of the log away") == [0]
    assert fleet.prometheus.alerts() == {}

    page.get_by_role("link", name=group, exact=True).click()
    page.wait_for_url(f"**/groups/{group}")
    elsewhere = {row["Replica"].split()[-1]: row for row in rows(page, "elsewhere")}
    assert {replica: row["State"] for replica, row in elsewhere.items()} == {
        second: "served",
        third: "served",
        left_behind: "served, but its replica is silent",
    }
    assert len(rows(page, "members")) == 1
    members[1].close()
    eventually(
        lambda: {row["Replica"].split()[-1] for row in rows(page, "elsewhere")},
        lambda seen: seen == {third, left_behind},
        what="a member that has left is not shown",
    )
    assert_it_fits(fleet, folder / "group")

    fleet.log.stop_broker(1)
    banner = page.locator(".banner", has_text="The member log: away")
    eventually(banner.count, what="the page of the group says that the log is away")
    page.goto(fleet.replicas[0].admin)
    eventually(
        fleet.health,
        lambda said: said.startswith(f"Member log away ({LOG_PARTITIONS} of {LOG_PARTITIONS} partitions)"),
        what="the page says that the log is away",
    )
    assert page.locator(".tiles .alarm", has_text="Member log").count() == 1
    assert fleet.group(group)["State"] == "Stable", "its members go on"
    assert_it_fits(fleet, folder / "away")
    eventually(
        fleet.prometheus.alerts,
        lambda alerts: alerts == {"EpochgateMemberLogAway": "pending"},
        what="the alert is on its way",
    )
    assert fleet.panel("Partitions of the log away") == [LOG_PARTITIONS]
    first_age = fleet.panel("Newest record")
    eventually(
        lambda: fleet.panel("Newest record"),
        lambda age: age > first_age,
        what="nothing is read, and it grows",
    )
    fleet.log.start_broker(1)
    eventually(fleet.health, lambda said: said.startswith("Member log ready"), what="the log is back")
    eventually(fleet.prometheus.alerts, lambda alerts: alerts == {}, what="the alert is over")
    assert page.locator(".tiles .alarm", has_text="Member log").count() == 0
    assert fleet.errors == [], "the browser complains"
    for one in (members[0], members[2], alone):
        one.close()


def assert_it_fits(fleet: Fleet, pictures: Path) -> None:
    """It is laid out well on every screen; the pictures stay in the test's folder, for people."""
    browser = fleet.page.context.browser
    assert browser is not None
    assert flaws(browser, fleet.page.url, pictures) == []
