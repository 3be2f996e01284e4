"""The page of a group that moves by steps, in a real browser: in each state of its move, on each screen, and by axe.

Without Kafka: the moves are made up here, and shown by the real pages. On a real Kafka such moves are looked at in
test_control.py and test_moves_shown.py.
"""

import contextlib
import http.server
import json
import threading
from collections import deque
from collections.abc import Iterator

import msgspec
import pytest
from playwright.sync_api import sync_playwright
from support.browser import SCHEMES, flaws, rows
from support.short_form import long

from pipeline.rules.certificate import Compared, Side
from pipeline.rules.lines import LAST_US
from pipeline.rules.live import LiveVerifier
from proxy.groups.proof_view import ProofView
from tests.pipeline.rules.test_verifier import WHOLE
from tests.proxy.admin.site import NOW_S, Site
from tests.proxy.groups.events import changed, event, life, topic
from tests.skips import program
from translation.actions import Event, EventKind
from translation.member_log.group_records import LastCommand, Move, Phase
from translation.moving.move_view import MoveView, view_of
from translation.policy.policy import Approval, Mode, Policy, Rule

NOW_MS = int(NOW_S * 1000)
STEPS = [1, "10%", "50%", "100%"]
RULE = Rule(pattern=".*", mode=Mode.TRANSLATE, steps=tuple(STEPS), hold_s=600)
MOVE = Move(steps=", ".join(map(str, STEPS)), step=1, since_ms=NOW_MS - 300_000)
SAID = LastCommand("pause", "CN=alice,OU=payments,O=Example", NOW_MS - 60_000, "id")
HARM = "lag: at least 12400 records more than before the move, for 3 windows; 1000 are allowed"
LAST = "its last translated member has left, so the broker made it a classic group"

STATES = {
    "awaiting": (
        msgspec.structs.replace(MOVE, step=0, phase=Phase.AWAITING),
        msgspec.structs.replace(RULE, approval=Approval.REQUIRED),
        ["before step 1 of 4 (1)", "epochgate approve --step 1"],
    ),
    "moving": (MOVE, RULE, ["step 2 of 4 (10%)", "until as many are translated as this step allows"]),
    "settled": (
        msgspec.structs.replace(MOVE, settled_ms=NOW_MS - 120_000),
        RULE,
        ["step 2 of 4 (10%), settled", "Step 3 begins in 8 min at the earliest."],
    ),
    "last": (
        msgspec.structs.replace(MOVE, settled_ms=NOW_MS - 120_000),
        msgspec.structs.replace(RULE, steps=tuple(STEPS[:2])),
        ["step 2 of 2 (10%), settled", "the last step: it is held until the policy has other steps"],
    ),
    "held": (
        msgspec.structs.replace(MOVE, phase=Phase.HELD, why=LAST),
        RULE,
        [f"held: {LAST}", "members that join stay classic", "epochgate resume"],
    ),
    "paused": (
        msgspec.structs.replace(MOVE, phase=Phase.PAUSED, why="by alice: deployment", said=SAID),
        RULE,
        ["paused: by alice: deployment", "members that join stay classic", "epochgate resume"],
    ),
    "aborted": (
        msgspec.structs.replace(MOVE, phase=Phase.ABORTED, why=HARM),
        RULE,
        [f"aborted: {HARM}", "go back to the classic protocol", "epochgate resume"],
    ),
    "rolled-back": (
        msgspec.structs.replace(MOVE, phase=Phase.ROLLED_BACK, why="by alice: lag grows", said=SAID),
        RULE,
        ["rolled back: by alice: lag grows", "go back to the classic protocol", "epochgate resume"],
    ),
}

BACK = ("aborted", "rolled-back")
MEMBER = "5c1f0727-e177-445a-9616-667ec9ff2d8f"
GROUPS = 300
COLOURS = "all => Object.fromEntries(all.map(one => [one.getAttribute('class'), getComputedStyle(one).fill]))"
NOTHING = Side(0, 0, 0, 0)
SHORT = {"settled", "held", "aborted"}


def going_back(one: dict[str, str]) -> list[Event]:
    """A translated member gives up its partitions, and joins the classic protocol."""
    back = {"reason": "back to the classic protocol", "owned": ()}
    return [
        changed("Stable", "Absent", **one, **back),
        event(EventKind.POLICY_CHANGED, **one, **back),
        changed("Absent", "CompletingRebalance", owned=(), **(one | {"protocol": "classic"})),
    ]


@contextlib.contextmanager
def served(site: Site) -> Iterator[str]:
    """Its address, for a browser."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = site.http.get(self.path)
            self.send_response(page.status_code)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.content)

        def log_message(self, *_arguments) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:  # else a test that fails never ends
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of the admin port of a proxy with a group in each state, called as the state."""
    site = Site()

    def move_of(group_id: str) -> MoveView:
        move, rule, _ = STATES[group_id]
        return view_of(move, rule, NOW_MS, "0123456789abcdef")

    site.known.move_of = move_of
    for state in STATES:
        translated = 0 if state in ("awaiting", "held") else 3 if state in BACK else 2
        for number in range(5):
            protocol = "translated" if number < translated else "classic"
            one = {"member": f"worker-{number}-{MEMBER}", "group": state, "protocol": protocol}
            one["client_id"] = f"payments-eu-worker-{number}"
            owned = topic(number, number + 5, name="payments.events")
            site.record(life(owned=owned, **one), NOW_S - 60 + number)
            if state == "moving" and number == 1:
                why = "converted in place: 0 ms, not noticed"
                site.record([event(EventKind.ADOPTED, owned=owned, reason=why, **one)], NOW_S - 5)
            if state in BACK and number == 0:
                site.record(going_back(one), NOW_S - 5)
            if state in ("moving", *BACK) and number == 4:
                site.record([changed("Stable", "PrepareRebalance", owned=owned, **one)], NOW_S - 2)
    with served(site) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    chromium = program("chromium", "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.mark.parametrize("state", [one if one in SHORT else long(one) for one in STATES])
def test_a_move_is_shown_so_that_a_person_knows_what_it_does_and_what_to_do(browser, url, folder, state):
    move, _, says = STATES[state]
    page = browser.new_page()
    page.goto(f"{url}/groups/{state}")
    banner = page.locator(".banner").first.inner_text().replace("\n", " ")
    current = page.locator(".steps [aria-current=step]").all_inner_texts()
    assert current == ([] if state == "awaiting" else [str(STEPS[move.step])])
    page.close()
    for one in says:
        assert one in banner
    assert flaws(browser, f"{url}/groups/{state}", folder / state) == []


def test_a_group_that_is_proven_shows_what_its_move_changed(browser, folder):
    site, verifier = Site(), LiveVerifier(delay_us=0)
    verifier.add(json.dumps(one).encode() for one in WHOLE)
    while verifier.go_through(LAST_US, 100):
        pass
    deque(verifier.look(), maxlen=0)
    proven = verifier.proven["g"]
    compared = (
        Compared("join", Side(4, 2_000_000, 3_000_000, 9_000_000), NOTHING, Side(3, 0, 0, 0), "shorter"),
        Compared("kill", Side(1, 5_000_000, 5_000_000, 5_000_000), NOTHING, NOTHING, "too_few"),
        Compared("deploy", Side(12, 61_000_000, 300_000_000, 900_000_000), NOTHING, NOTHING, "too_few"),
    )
    site.known.proof_of = lambda _: ProofView(
        state="live",
        scope="all processes",
        by="pod",
        verdict=proven.verdict,
        clean_since=NOW_S - 600,
        looked_at=NOW_S - 2,
        complete=True,
        certificate=verifier.certificate("g"),
        compared=compared,
    )
    site.record(life(owned=topic(0, 1)), NOW_S - 60)
    with served(site) as url:
        assert flaws(browser, f"{url}/groups/g", folder / "proven") == []
        page = browser.new_page()
        page.goto(f"{url}/groups/g")
        assert "Proven for 10 min" in page.locator("#proof ~ .banner.over").inner_text(), "it is no warning"
        shown = rows(page, "compared")
        page.close()
    assert [one["Compared"] for one in shown] == ["shorter", "not enough to say", "not enough to say"]
    assert [one["After"] for one in shown] == ["3 no client stopped", "0", "0"]


def test_the_list_of_groups_has_all_of_them(browser, url, folder):
    assert flaws(browser, url, folder / "all") == []


def test_a_list_of_300_groups_is_for_people(browser, folder):
    """Six waves of teams: what waits for a person is above, and a choice in the form is a link."""
    site = Site()
    states = list(STATES.values())
    groups = [f"team-{number % 12}.service-{number}" for number in range(GROUPS)]
    rules = tuple(
        msgspec.structs.replace(
            RULE, pattern=None, groups=(group,), wave=1 + number // 50, owner=f"team-{number % 12}"
        )
        for number, group in enumerate(groups)
    )
    site.registry.set_policy(Policy(rules=rules), int(NOW_S * 1e6))
    site.known.lag_of = lambda group: len(group) * 1_000
    numbers = {group: number for number, group in enumerate(groups)}

    def move_of(group_id: str) -> MoveView:
        move, rule, _ = states[3 if numbers[group_id] % 10 else numbers[group_id] // 10 % len(states)]
        return view_of(move, rule, NOW_MS, "0123456789abcdef")

    site.known.move_of = move_of
    for group in groups:
        site.record(life("m-0", group=group, protocol="classic"), NOW_S - 60)
    with served(site) as url:
        assert flaws(browser, url, folder / "groups-300") == []
        page = browser.new_page()
        page.goto(url)
        assert page.locator(".waves li").count() == 6
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            colours = page.locator(".waves rect").evaluate_all(COLOURS)
            kinds = [colours[one] for one in ("aborted", "to-approve", "moving", "waiting", "not-begun")]
            assert len(set(kinds)) == len(kinds), f"two standings of a wave look the same: {colours}"
        assert page.locator("table.groups tbody tr").count() == GROUPS
        assert (
            page.locator("table.groups tbody tr")
            .first.locator("[data-label=Move]")
            .inner_text()
            .startswith("aborted")
        )
        page.get_by_label("Owner").select_option("team-3")
        page.wait_for_url("**owner=team-3**")
        assert page.locator("h1").inner_text() == "Consumer groups of team-3"
        assert page.locator("table.groups tbody tr").count() == GROUPS // 12
        page.close()
