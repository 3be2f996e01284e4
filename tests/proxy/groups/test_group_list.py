"""The list of groups: what needs a person first, waves as lanes, filtered and sorted as a link says."""

import re

import pytest

from proxy.groups.group_list import Query, Standing, chosen, lanes, standing_of
from proxy.groups.snapshot import GroupView
from tests.proxy.admin.site import NOW_S, Site
from tests.proxy.groups.events import MICRO, event, life
from translation.actions import EventKind
from translation.mending.unowned import Unowned
from translation.moving.move_view import MoveView
from translation.policy.policy import Mode, Policy, Rule
from translation.rollout.step_start import WAITS_FOR_APPROVAL

TEAMS = {
    "payments": ("orders", "refunds", "ledger", "invoices"),
    "web": ("clicks", "sessions"),
}
WAVE_OF = {"payments": 1, "web": 2}
LAGS = {"orders": 12_000, "refunds": 7, "clicks": 0}
MEMBERS = {"orders": 4, "sessions": 3}


def move(phase: str = "moving", **more: object) -> MoveView:
    said = {"step": 1, "steps": 2, "allows": "1", "settled": False, "why": "", "text": f"it is {phase}"}
    return MoveView(**{**said, "phase": phase, **more})


MOVES = {
    "orders": move(),
    "refunds": move("held"),
    "ledger": move("waiting", step=0),
    "invoices": move("awaiting", waits=f"{WAITS_FOR_APPROVAL} of step 1", next_step=1),
    "clicks": move(step=2, allows="100%", settled=True),
    "sessions": move("paused"),
}


@pytest.fixture
def site() -> Site:
    site = Site()
    rules = tuple(
        Rule(groups=groups, mode=Mode.TRANSLATE, steps=(1, "100%"), wave=WAVE_OF[team], owner=team)
        for team, groups in TEAMS.items()
    )
    site.registry.set_policy(Policy(rules=rules), round(NOW_S * MICRO))
    site.known.move_of = MOVES.get
    site.known.lag_of = LAGS.get
    unowned = Unowned(
        partitions=1, since_s=60, tries=0, why_not="it may not", text="1 partition has no owner"
    )
    site.known.unowned_of = {"lost": unowned}.get
    for group in (*MOVES, "lost", "not-in-a-wave"):
        protocol = "translated" if group == "clicks" else "classic"
        for number in range(MEMBERS.get(group, 1)):
            site.record(life(f"m-{number}", group=group, protocol=protocol), 990)
    return site


def views(site: Site) -> tuple[GroupView, ...]:
    return site.snapshot().groups


def listed(site: Site, path: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/groups/([^"]+)">', site.http.get(path).text)


def test_what_needs_a_person_comes_first(site: Site) -> None:
    assert {group.id: standing_of(group) for group in views(site)} == {
        "orders": Standing.MOVING,
        "refunds": Standing.HELD,
        "ledger": Standing.WAITING,
        "invoices": Standing.TO_APPROVE,
        "clicks": Standing.MIGRATED,
        "sessions": Standing.WAITING,
        "lost": Standing.STUCK,
        "not-in-a-wave": Standing.CLASSIC,
    }
    in_order = ["lost", "refunds", "invoices", "orders", "ledger", "sessions", "not-in-a-wave", "clicks"]
    assert listed(site, "/") == in_order
    assert '<div class="alarm"><dt>Need action</dt><dd>3</dd></div>' in site.http.get("/").text


@pytest.mark.parametrize(
    ("link", "groups"),
    [
        ("/?standing=held", ["refunds"]),
        ("/?wave=2", ["sessions", "clicks"]),
        ("/?owner=web&sort=group", ["clicks", "sessions"]),
        ("/?owner=payments&standing=moving", ["orders"]),
        ("/?q=l&wave=1&sort=group", ["invoices", "ledger", "orders", "refunds"]),
        ("/?sort=lag&wave=1", ["orders", "refunds", "invoices", "ledger"]),
        ("/?sort=members&owner=web", ["sessions", "clicks"]),
        ("/?owner=nobody", []),
        ("/?sort=nonsense&standing=held", ["refunds"]),
    ],
)
def test_a_link_chooses_and_sorts(link: str, groups: list[str], site: Site) -> None:
    assert listed(site, link) == groups


@pytest.mark.parametrize(
    ("shown", "protocol", "standing"),
    [
        (move(step=2, allows="10%", settled=True), "classic", Standing.LAST_STEP),
        (move(step=2, allows="10%", settled=False), "classic", Standing.MOVING),
        (move("rolled_back"), "classic", Standing.MOVING),
        (move("over", step=2, settled=True), "classic", Standing.MOVING),
        (None, "classic", Standing.MOVING),
        (move(step=2, allows="100%", settled=True), "translated", Standing.MIGRATED),
        (move("rolled_back"), "translated", Standing.MOVING),
    ],
)
def test_a_group_of_which_a_part_is_translated(
    shown: MoveView | None, protocol: str, standing: Standing, site: Site
) -> None:
    site.known.move_of = {"sessions": shown}.get
    site.record(life("m-0", group="sessions", protocol="translated"), 991)
    for number in range(1, MEMBERS["sessions"]):
        site.record(life(f"m-{number}", group="sessions", protocol=protocol), 991)
    (group,) = (group for group in views(site) if group.id == "sessions")
    assert standing_of(group) == standing


def test_members_that_are_all_back_leave_the_group_waiting(site: Site) -> None:
    site.known.move_of = {"sessions": move("rolled_back")}.get
    (group,) = (group for group in views(site) if group.id == "sessions")
    assert standing_of(group) == Standing.WAITING


def test_each_wave_is_a_lane_that_counts_its_groups(site: Site) -> None:
    first, second = lanes(views(site))
    assert (first.wave, first.groups, second.wave, second.groups) == (1, 4, 2, 2)
    assert first.standings == {
        Standing.HELD: 1,
        Standing.TO_APPROVE: 1,
        Standing.MOVING: 1,
        Standing.WAITING: 1,
    }
    text = site.http.get("/").text
    assert 'aria-label="1 held, 1 to approve, 1 moving, 1 waiting"' in text
    assert '<a href="/?wave=2">wave 2</a>' in text


def test_a_team_gets_a_link_to_its_own_groups_alone(site: Site) -> None:
    text = site.http.get("/?owner=web").text
    assert "Consumer groups of web" in text
    assert '<div class=""><dt>Need action</dt><dd>0</dd></div>' in text
    assert "wave 1" not in text
    assert "Preflight" not in text
    assert 'href="/?owner=web"' in site.http.get("/groups/clicks").text


def test_the_lag_is_shown_where_it_is_known(site: Site) -> None:
    assert ">12,000<" in site.http.get("/?owner=payments").text
    assert 'data-label="Lag (records)"' not in site.http.get("/?standing=stuck").text
    assert "Lag:</span> 7 records</span>" in site.http.get("/groups/refunds").text
    assert {group.id: group.lag for group in chosen(views(site), Query(wave="2"))} == {
        "clicks": 0,
        "sessions": None,
    }


def test_what_a_policy_says_anew_counts(site: Site) -> None:
    site.registry.set_policy(
        Policy(rules=(Rule(pattern="clicks", mode=Mode.OBSERVE, owner="data"),)), round(NOW_S * MICRO)
    )
    assert listed(site, "/?owner=data") == ["clicks"]
    site.record([event(EventKind.JOINED, "m-9", group="clicks-2")], 991)
    assert [group.owner for group in views(site) if group.id == "clicks-2"] == [None]
