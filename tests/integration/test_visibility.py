"""What an operator sees of a live migration: in a real browser, in a real Prometheus, in the terminal, in the journal.

One group is moved once, and everybody watches the same.
"""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page
from support import ROOT
from support.broker import GroupView, Kafka
from support.browser import open_page
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy
from support.prometheus import Prometheus, running_prometheus
from support.waiting import eventually

from proxy.journal.journal import JournalEvent
from proxy.metrics.registry import Metrics
from tests.skips import program

pytestmark = pytest.mark.kafka

FILES = ROOT / "charts" / "epochgate" / "files"
PARTITIONS = 6
GROUP = "payments"
WITHOUT_DATA = ("proof_groups", "group_shadow_")
"""Series that this rollout lacks: nothing is proven, and the forecast is for groups that are not moved yet."""
TRANSLATE = "default: observe\nrules:\n  - {group: payments, mode: translate}\n"


@dataclass
class Stage:
    """A group at work behind a proxy that is watched."""

    kafka: Kafka
    proxy: Proxy
    consumers: Consumers
    topic: str
    page: Page
    prometheus: Prometheus
    progress: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def row(self) -> str:
        """What the list of groups says of the group."""
        row = self.page.locator("tr", has=self.page.get_by_role("link", name=GROUP, exact=True))
        return row.inner_text() if row.count() else ""

    def watch(self, until: str) -> None:
        """Look at the page, which nobody loads again, until it says so."""

        def seen() -> str:
            found = re.search(r"\d of \d", self.row())
            said = found[0] if found else ""
            if said and said not in self.progress:
                self.progress.append(said)
            return said

        eventually(seen, lambda said: said == until, what=f"the page says {until!r}", timeout_s=90)

    def status(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "proxy", "status", "--admin", self.proxy.admin, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def api(self) -> dict[str, object]:
        return json.loads(self.status("--json").stdout)["groups"][0]


@pytest.fixture(scope="module")
def stage(kafka: Kafka, empty_folder) -> Iterator[Stage]:
    chromium, prometheus = program("chromium", "chromium"), program("prometheus", "prometheus")
    folder: Path = empty_folder("visibility")
    topic = kafka.new_topic(partitions=PARTITIONS)
    journal = kafka.new_topic("journal", partitions=2)
    errors: list[str] = []
    with contextlib.ExitStack() as stack:
        fleet = {
            "kafka": {"bootstrap.servers": kafka.bootstrap},
            "topic": f"members-{topic}",
            "replication": 1,
        }
        proxy = Proxy(kafka.bootstrap, folder / "proxy", fleet=fleet, preflight={"enabled": True})
        file = proxy.folder / "epochgate.yaml"
        config = json.loads(file.read_text())
        config |= {"metrics": {"ask_brokers_every_s": 1}, "journal": {"path": "journal", "topic": journal}}
        file.write_text(json.dumps(config))
        (proxy.folder / "policy.yaml").write_text("default: observe\n")
        stack.callback(proxy.stop)
        proxy.start()
        consumers = Consumers(folder)
        stack.callback(consumers.end)
        watching = running_prometheus(
            prometheus, [proxy.scrape_target], FILES / "rules.yaml", folder / "prometheus"
        )
        watched = stack.enter_context(watching)
        page = stack.enter_context(open_page(chromium, proxy.admin, errors))
        yield Stage(kafka, proxy, consumers, topic, page, watched, errors=errors)


def start(stage: Stage, name: str, bootstrap: str | None = None) -> ConsumerProcess:
    return stage.consumers.start(
        CONFLUENT, bootstrap or stage.proxy.bootstrap, GROUP, stage.topic, "range", name=name
    )


def shared(stage: Stage) -> bool:
    owned = [one.owned() for one in stage.consumers.all if not one.ended]
    return sum(map(len, owned)) == PARTITIONS == len(frozenset().union(*owned))


def agrees(page: Page, group: GroupView | None) -> bool:
    """Whether each row of the page's table of members is what the broker says of that member."""
    said = {}
    for row in page.locator("table.members tbody tr").all():
        cells = dict(
            zip(
                ("client", "comes", "state", "generation", "epoch", "partitions"),
                row.locator("th,td").all_inner_texts(),
                strict=False,
            )
        )
        numbers = re.findall(
            r"\d+(?:-\d+)?", cells["partitions"].removeprefix("none").rpartition(" t-")[2].partition(" ")[2]
        )
        indexes = {n for one in numbers for n in range(int(one.split("-")[0]), int(one.split("-")[-1]) + 1)}
        said[cells["client"].split()[0]] = (indexes, int(cells["epoch"]))
    told = {
        one.client_id: (set().union(*one.assignment.values()), one.member_epoch)
        for one in (group.members if group else ())
    }
    return bool(told) and said == told


def test_a_person_sees_a_group_go_from_0_to_100_percent(stage):
    """The last member still goes straight to the brokers when the policy changes: it is moved with its address."""
    for name in ("a", "b"):
        start(stage, name)
    last = start(stage, "c", stage.kafka.bootstrap)
    stage.consumers.wait_until(lambda: shared(stage), "the classic group shares the partitions")
    stage.watch("0 of 3")
    assert "observe" in stage.row()
    assert "2 classic, 1 elsewhere" in stage.row()
    (stage.proxy.folder / "policy.yaml").write_text(TRANSLATE)
    stage.watch("2 of 3")
    last.close()
    start(stage, "c")
    stage.watch("3 of 3")
    eventually(stage.row, lambda row: "3 translated" in row and "translate" in row, what="all are translated")
    stage.consumers.wait_until(lambda: shared(stage), "the translated group shares the partitions")

    stage.page.get_by_role("link", name=GROUP, exact=True).click()
    stage.page.wait_for_url("**/groups/payments")
    eventually(
        lambda: agrees(stage.page, stage.kafka.describe(GROUP)),
        what="the page shows members as the broker does",
    )
    assert stage.page.locator("svg.chart rect").count() >= PARTITIONS
    assert "converted in place" in stage.page.locator("svg.chart").text_content()

    start(stage, "d")
    eventually(
        lambda: "d" in stage.page.locator("table.members").inner_text().split(),
        what="the page shows who came",
    )
    stage.consumers.wait_until(lambda: shared(stage), "four share the partitions")
    eventually(
        lambda: agrees(stage.page, stage.kafka.describe(GROUP)), what="and then as the broker does again"
    )
    assert stage.errors == [], "the browser complains"


def test_the_terminal_says_the_same(stage):
    group = stage.api()
    assert (group["progress"]["done"], group["progress"]["total"]) == (4, 4)
    shown = stage.status(GROUP)
    assert shown.returncode == 0
    assert all(f"\n{name} " in shown.stdout for name in "abcd")
    assert all(name in shown.stdout for name in ("translated", "Stable", "latest events"))


def test_prometheus_has_every_metric_of_the_table(stage):
    known = eventually(
        lambda: stage.prometheus.get("metadata"),
        lambda found: "epochgate_group_mode" in found,
        what="Prometheus knows the metrics",
    )
    wanted = {one.name.removesuffix("_total") for one in Metrics().table}
    assert wanted <= {name.removesuffix("_total") for name in known}
    assert stage.prometheus.value('epochgate:group_migrated:ratio{group="payments"}') == 1
    assert stage.prometheus.value('epochgate_group_broker_members{group="payments",type="consumer"}') == 4
    assert stage.prometheus.value('epochgate_fleet_members{state="served"}') == 4
    assert stage.prometheus.value("sum(epochgate_fleet_members_here)") == 4
    assert 0 < stage.prometheus.value("epochgate_fleet_newest_record_age_seconds") < 60


def panels() -> list[dict[str, object]]:
    return [
        one
        for file in sorted(FILES.glob("dashboard*.json"))
        for one in json.loads(file.read_text())["panels"]
        if one["type"] != "row"
    ]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_query_of_the_dashboard_gives_data(stage, panel):
    for target in panel["targets"]:
        expression = target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
        expression = expression.replace("$group", "payments")
        result = stage.prometheus.ask(expression)
        if any(series in expression for series in WITHOUT_DATA):
            continue  # Prometheus has parsed it
        assert result, expression
        assert any(one["value"][1] != "NaN" for one in result), expression


def test_the_lag_is_known_while_somebody_looks(stage):
    """The page is open; before the first commit there is no lag."""
    stage.kafka.produce(stage.topic, 10 * PARTITIONS)
    eventually(stage.api, lambda group: group["lag"] == 0, what="all records are committed", timeout_s=60)


def test_the_rules_hold_on_prometheus_and_a_refused_policy_raises_its_alert_alone(stage):
    assert stage.prometheus.alerts() == {}
    (stage.proxy.folder / "policy.yaml").write_text("default: nonsense\n")
    eventually(
        stage.prometheus.alerts,
        lambda alerts: alerts == {"EpochgatePolicyRefused": "pending"},
        what="the alert is on its way",
    )
    (stage.proxy.folder / "policy.yaml").write_text(TRANSLATE)
    eventually(stage.prometheus.alerts, lambda alerts: alerts == {}, what="the alert is over")
    groups = stage.prometheus.get("rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}


def test_the_journal_tells_the_migration(stage):
    """The last of this module: the proxy ends, and its journal is read as the pipeline reads it."""
    for one in stage.consumers.all:
        if not one.ended:
            one.close()
    eventually(lambda: stage.api()["state"], lambda state: state == "Empty", what="everybody has left")
    stage.proxy.stop()
    lines = [
        line
        for file in sorted((stage.proxy.folder / "journal").iterdir())
        for line in file.read_bytes().splitlines()
    ]
    events = [msgspec.json.decode(line, type=JournalEvent, strict=True) for line in lines]
    assert not [file.name for file in (stage.proxy.folder / "journal").iterdir() if file.name.startswith("_")]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.time_us for event in events] == sorted(event.time_us for event in events)
    assert (events[0].kind, events[-1].kind) == ("started", "stopped")
    told = {(event.kind, event.protocol) for event in events if event.group == GROUP}
    assert {("joined", "classic"), ("assigned", "classic"), ("adopted", "translated")} <= told
    assert {("joined", "translated"), ("assigned", "translated"), ("left", "translated")} <= told
    assert not {("left", "classic"), ("session_expired", "classic")} & told, "converted members have not left"
    owners: dict[tuple[str, int], str] = {}
    held: dict[str, set[tuple[str, int]]] = {}
    for event in events:
        if event.owned is None or not event.member:
            continue
        now = {(one.topic, index) for one in event.owned for index in one.partitions}
        for partition in held.get(event.member, set()) - now:
            owners.pop(partition)
        for partition in now - held.get(event.member, set()):
            assert owners.setdefault(partition, event.member) == event.member, f"two owners of {partition}"
        held[event.member] = now
    assert owners == {}, "everything was given up in the end"
