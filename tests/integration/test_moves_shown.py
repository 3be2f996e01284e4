"""The pages of three moves by steps on a real Kafka, in a real browser: one in progress, one held, one aborted."""

import contextlib
import json
import urllib.request
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from support import misbehaving
from support.browser import flaws
from support.clients import CONFLUENT
from support.entry import Proxy, running_proxy
from support.load import Load
from support.misbehaving import Misbehaving
from support.waiting import eventually

from tests.skips import program

PARTITIONS = 4
QUICK = Path(__file__).parent / "support" / "quick_gates.py"
POLICY = """\
default: observe
rules:
  - {pattern: "moving-.*", mode: translate, steps: [1, "50%", "100%"], hold_s: 600}
  - {pattern: "held-.*", mode: translate, steps: [1]}
  - {pattern: "aborted-.*", mode: translate, steps: [1, "100%"], hold_s: 0, abort_if: {}}
"""


def kinds(kafka, group: str) -> Counter:
    """How many members the broker has of each kind; a classic group has classic ones only."""
    described = kafka.describe(group)
    if described is not None:
        return Counter(one.member_type for one in described.members)
    return Counter(classic=len(kafka.describe_classic(group).members))


def phase(proxy: Proxy, group: str) -> str:
    """What the group's move does, by /api/groups; empty if it has none."""
    with urllib.request.urlopen(f"{proxy.admin}/api/groups", timeout=30) as answer:  # noqa: S310  the proxy's own
        groups = json.load(answer)["groups"]
    return next((one["move"]["phase"] for one in groups if one["id"] == group and one["move"]), "")


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.scenario("pages of a move in progress, held and aborted, in a browser and by axe")
def test_a_person_sees_a_move_in_progress_one_held_and_one_aborted(kafka, consumers, folder: Path, group):
    chromium = program("chromium", "chromium")
    moving, held, aborted = (f"{name}-{group}" for name in ("moving", "held", "aborted"))
    fleet = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 4,
        "replication": 1,
        "expires": True,
    }
    with (
        running_proxy(kafka.bootstrap, folder / "proxy", policy=POLICY, fleet=fleet, script=QUICK) as proxy,
        contextlib.ExitStack() as stack,
    ):
        topics = {one: kafka.new_topic(partitions=PARTITIONS) for one in (moving, held, aborted)}
        start = partial(consumers.start, CONFLUENT, proxy.bootstrap)
        members = [start(held, topics[held], "range") for _ in range(3)]
        eventually(
            partial(kinds, kafka, held), lambda seen: seen == Counter(consumer=1, classic=2), what="one moves"
        )
        proxy.kill()  # and with it the group's helper, without which the group becomes a classic one again
        proxy.start()
        described = eventually(
            partial(kafka.describe, held),
            lambda seen: seen is not None and not seen.helpers,
            what="no helper",
        )
        translated = {one.client_id for one in described.members if one.member_type == "consumer"}
        next(one for one in members if one.name in translated).close()
        start(held, topics[held], "range")

        for _ in range(4):
            start(moving, topics[moving], "range")

        stack.enter_context(Load(kafka, topics[aborted]))
        start(aborted, topics[aborted], "range", heartbeat_interval_ms=3_000, session_timeout_ms=10_000)
        harm = misbehaving.commits_with_an_old_generation
        stack.enter_context(Misbehaving(proxy.bootstrap, aborted, topics[aborted], PARTITIONS, harm))

        for one, expected in ((moving, "moving"), (held, "held"), (aborted, "aborted")):
            eventually(
                partial(phase, proxy, one),
                lambda seen, expected=expected: seen == expected,
                what=f"{one} is {expected}",
                timeout_s=90,
            )
        eventually(
            partial(kinds, kafka, moving),
            lambda seen: seen == Counter(consumer=1, classic=3),
            what="one of four moves",
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page()
            says = {
                moving: "step 1 of 3 (1)",
                held: "step 1 of 1 (1), held: its last translated member has left",
                aborted: "step 1 of 2 (1), aborted: commit errors",
            }
            for one, said in says.items():
                url = f"{proxy.admin}/groups/{one}"
                page.goto(url)
                banner = page.locator(".banner", has_text="Moved by steps").inner_text()
                assert said in banner
                assert ("epochgate resume" in banner) is (one != moving)
                assert flaws(browser, url, folder / one) == []
            assert flaws(browser, proxy.admin, folder / "all") == []
            browser.close()
