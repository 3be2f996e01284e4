"""Workers of Kafka Connect behind the proxy: what it shows of them is what Connect's own REST API and logs say.

The page of their group is open in a real browser, and never loaded again.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page
from support.browser import flaws, open_page, rows
from support.connect import LOST_WORKER_DELAY_MS, Running, Worker
from support.entry import Proxy, running_proxy
from support.waiting import eventually

from tests.skips import program

pytestmark = pytest.mark.kafka

CONNECTORS = {"orders": 3, "payments": 2, "returns": 1}
ALL = {*CONNECTORS, *(f"{name}-{task}" for name, tasks in CONNECTORS.items() for task in range(tasks))}


@pytest.fixture
def proxy(kafka, folder) -> Iterator[Proxy]:
    with running_proxy(kafka.bootstrap, folder / "proxy", journal={"path": "journal"}) as proxy:
        yield proxy


class Cluster:
    """A Connect cluster of its own behind the proxy."""

    def __init__(self, proxy: Proxy, version: str, group: str) -> None:
        self.proxy = proxy
        self.group = group
        self._version = version
        self.workers: list[Worker] = []

    def start(self) -> Worker:
        name = f"w{len(self.workers) + 1}"
        worker = Worker(self._version, self.proxy.bootstrap, self.group, self.proxy.folder.parent, name)
        self.workers.append(worker)
        return worker

    def shown(self) -> dict[str, Any]:
        """The group in /api/groups."""
        return self.proxy.group(self.group)

    def running(self) -> Running:
        """What the proxy shows of each worker."""
        return {
            member["worker"]["url"]: {
                topic["topic"] if index < 0 else f"{topic['topic']}-{index}"
                for topic in member["partitions"]
                for index in topic["partitions"]
            }
            for member in self.shown()["members"]
            if member["worker"] is not None
        }

    def agrees(self, asked: Worker, workers: int) -> bool:
        """Whether everything runs on so many workers, and the proxy shows it as Connect does."""
        running = asked.running()
        return (
            running is not None
            and running == self.running()
            and len(running) == workers
            and set().union(*running.values()) == ALL
            and self.shown()["state"] == "Stable"
        )


@pytest.fixture
def cluster(kafka, proxy, group) -> Iterator[Cluster]:
    cluster = Cluster(proxy, kafka.version, group)
    yield cluster
    for worker in cluster.workers:
        worker.kill()


@pytest.fixture
def page(proxy) -> Iterator[Page]:
    """A browser, which has nothing to complain about."""
    errors: list[str] = []
    with open_page(program("chromium", "chromium"), proxy.admin, errors) as page:
        yield page
    assert errors == []


def in_the_page(page: Page) -> Running:
    """What the page shows of each worker."""
    return {
        url.group(): set(row["Connectors, tasks"].replace(";", ",").split(", "))
        for row in rows(page, "members")
        if (url := re.search(r"http://[^\s,]+", row[""])) is not None
    }


def test_a_connect_cluster_is_shown_as_it_is(cluster, page, folder):
    first = cluster.start()
    for name, tasks in CONNECTORS.items():
        first.create(name, tasks)
    eventually(lambda: cluster.agrees(first, 1), what="one worker runs all", between_s=0.5)
    page.goto(f"{cluster.proxy.admin}/groups/{cluster.group}")

    second = cluster.start()
    eventually(lambda: cluster.agrees(second, 2), what="two workers share", timeout_s=90, between_s=0.5)
    shown = cluster.shown()
    said = first.assignment()
    assert {member["protocol"] for member in shown["members"]} == {"connect"}
    leaders = [member["worker"]["url"] for member in shown["members"] if member["worker"]["is_leader"]]
    assert leaders == [shown["connect"]["leader_url"]] == [said.leader_url]
    assert {member["generation"] for member in shown["members"]} == {said.generation}
    assert (shown["connect"]["connectors"], shown["connect"]["tasks"]) == (3, 6)
    assert shown["connect"]["rejoins_at"] is None
    assert said.delay_ms == 0
    eventually(lambda: in_the_page(page), lambda seen: seen == first.running(), what="the page shows it")

    second.kill()
    waiting = eventually(
        lambda: cluster.shown()["connect"],
        lambda connect: connect["workers"] == 1 and connect["rejoins_at"] is not None,
        what="the proxy shows that what the lost worker ran waits",
        between_s=0.2,
    )
    assert waiting["connectors"] + waiting["tasks"] < len(ALL)
    page.get_by_text("the workers join again in").wait_for()
    assert 0 < first.assignment().delay_ms <= LOST_WORKER_DELAY_MS
    metrics = cluster.proxy.metrics()
    assert f'epochgate_connect_rejoin_timestamp_seconds{{group="{cluster.group}"}} 1.' in metrics
    browser = page.context.browser
    assert browser is not None
    assert flaws(browser, page.url, folder / "page") == []
    eventually(lambda: cluster.agrees(first, 1), what="one worker runs all again", between_s=0.5)
    assert cluster.shown()["connect"]["rejoins_at"] is None
