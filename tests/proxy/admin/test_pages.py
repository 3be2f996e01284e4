"""The pages and /api/groups, as they leave the process; in a browser they are seen in tests/integration."""

import html
import http.client
import re
import socket
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import trio

from pipeline.rules.certificate import Compared, Side
from protocol_codecs.classic_clients import OPTIONS, RACKS_IGNORED, Refusal
from proxy.admin.admin_http import serve_admin
from proxy.admin.snapshot_encoding import encode_cooperatively
from proxy.admin.status_page import SHOWN, group_path
from proxy.config.control import Control
from proxy.groups.formatting import duration, partitions
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.proof_view import ProofView
from proxy.groups.snapshot import GroupView, Snapshot
from proxy.groups.timeline import longest_without_owner, timeline
from proxy.shadow.view import ShadowView, Span, not_computable
from tests.proxy.admin.site import NOW_S, PAGE, Page, Site
from tests.proxy.groups.events import MICRO, changed, event, life, topic
from translation.actions import ConnectWorker, EventKind
from translation.mending.unowned import Unowned
from translation.moving.move_view import MoveView
from translation.partitions import Role, TopicPartitionSet
from translation.policy.client_offer import ClientOffer
from translation.policy.policy import Mode, Policy

HOSTILE = "<script>alert(1)</script>\"'&/../{{7*7}}"
CONTROL = "\x1b[2J\x7f\u202e\u2028"
GROUP_IDS = [
    *(
        HOSTILE,
        "a/b",
        "/",
        "//x",
        "..",
        ".",
        "../..",
        "%2e",
        "%2F",
        "a?b#c",
        "a&b=c+d",
        "ü",
        "\U0001f600",
        " ",
    ),
    *("a\nb", "a\n", "\n", "\r\n", "\t", "\x00", CONTROL, "\u200b", "\ufeff", "\\", "g" * 255, "ü" * 255),
]


@pytest.fixture
def site() -> Site:
    return Site()


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_an_empty_proxy_says_what_will_come(site):
    page = site.http.get("/")
    assert page.status_code == 200
    assert "No group has been seen yet" in page.text
    assert "not ready: starting" in page.text


def test_the_list_shows_groups_and_leads_to_them(site):
    site.health.ready()
    site.record(life("m-1", owned=topic(0, 1)) + life("m-2", protocol="classic"), 990)
    text = site.http.get("/").text
    for said in ('href="/groups/g"', "translate", "1 of 2", "1 translated, 1 classic", "Stable", "ready"):
        assert said in text
    page = site.http.get("/groups/g").text
    for said in ("app-m-1", "t 0, 1", "Partition owners over time", "<svg", "joined"):
        assert said in page


@pytest.mark.parametrize("path", ["/", group_path(HOSTILE), f"/?q={quote(HOSTILE)}"])
def test_what_clients_make_up_stays_text(site, path):
    names = {"client_id": HOSTILE, "reason": HOSTILE, "software": HOSTILE, "client_host": HOSTILE}
    owned = topic(0, name=HOSTILE)
    site.record(life(HOSTILE, group=HOSTILE, owned=owned, **names), 990)
    site.record([event(EventKind.PASSED_THROUGH, HOSTILE, group=HOSTILE, protocol="", reason=HOSTILE)], 991)
    page = site.http.get(path)
    assert page.status_code == 200
    scripts = [attributes for tag, attributes in Elements(page.text).found if tag == "script"]
    assert scripts == [{"src": "/assets/live.js", "defer": None}]
    assert "<script>alert" not in page.text
    assert html.escape("<script>alert(1)</script>") in page.text
    assert "49" not in page.text.split("<main")[1], "a group id is no template"


@pytest.mark.parametrize("group_id", GROUP_IDS)
def test_each_group_has_a_page_whatever_it_is_called(site, group_id):
    site.record(life(group=group_id), 990)
    page = site.http.get(group_path(group_id))
    assert page.status_code == 200
    assert "app-m-1" in page.text


@pytest.mark.parametrize("path", ["/", "/groups/x", "/assets/style.css", "/assets/live.js", "/assets/no"])
def test_nothing_may_be_loaded_from_elsewhere_and_nothing_inline(site, path):
    site.record(life(owned=topic(0)), 990)
    page = site.http.get(path)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    if path == "/":
        for _, attributes in Elements(page.text).found:
            assert not {name for name in attributes if name == "style" or name.startswith("on")}


def test_a_page_works_without_a_script(site):
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in site.http.get("/").text


def test_the_page_of_a_group_says_why_it_is_not_translated_what_can_be_done_and_what_would_be_lost(site):
    offer = ClientOffer(protocol_type="consumer", assignors=(HOSTILE,), user_data=(), rack_aware=True)
    reason = f"assignor {HOSTILE!r} is unknown"
    site.record([event(EventKind.PASSED_THROUGH, group="g", protocol="", reason=reason, offer=offer)], 990)
    text = html.unescape(site.http.get("/groups/g").text)
    assert f"Not translatable: {reason}. Options: {OPTIONS[Refusal.UNKNOWN_ASSIGNOR]}" in text
    assert f": {RACKS_IGNORED}" in text
    assert "<script>alert" not in site.http.get("/groups/g").text


def test_the_page_of_an_observed_group_tells_what_a_move_would_give_it(site):
    site.registry.set_policy(Policy(default=Mode.OBSERVE), round(980 * MICRO))
    site.record(life(protocol="classic"), 990)
    two, four = Span(low=2, high=2), Span(low=3, high=4)
    told = ShadowView(
        computed_at=995.0,
        why_not=None,
        assignor="range",
        samples=24,
        members=5,
        partitions=10,
        empty_now=1,
        empty=two,
        fewest=Span(low=0, high=0),
        most=four,
        moved=Span(low=5, high=9),
        rack_local_now=7,
        racks_lost=Span(low=1, high=6),
        at_once="the assignments carry user data of their assignor",
        notes=("<script>",),
    )
    assert 'id="shadow"' not in site.http.get("/groups/g").text

    site.registry.set_shadow("g", told)
    page = site.http.get("/groups/g").text
    for said in (
        "2 of 5",
        "(today 1)",
        "most 3 to 4",
        "5 to 9 of 10",
        "1 to 6",
        "(of 7 within it)",
        "All members have",
        "commits in onPartitionsLost can end",
    ):
        assert said in page
    assert "&lt;script&gt;" in page

    site.registry.set_shadow("g", not_computable("its topics are <hidden>", 996.0))
    assert "Not computed: its topics are &lt;hidden&gt;." in site.http.get("/groups/g").text


def test_an_unknown_group_is_not_found(site):
    assert site.http.get("/groups/nobody").status_code == 404
    assert site.http.get("/api/groups/nobody").status_code == 404


def test_groups_that_need_a_look_come_first_and_a_filter_finds_the_others(site):
    for number in range(SHOWN + 50):
        site.record(life(group=f"g-{number:04}"), 990)
    stuck = changed("Stable", "PrepareRebalance", group="g-0549", rebalance_timeout_ms=1000)
    site.record([stuck], 991)
    text = site.http.get("/").text
    assert text.index("g-0549") < text.index("g-0000")
    assert "8 s beyond the rebalance timeout" in text
    assert "50 more groups" in text
    assert "g-0540" not in text
    assert "g-0540" in site.http.get("/?q=g-0540").text
    assert "No group matches" in site.http.get("/?q=nothing").text


def test_partitions_that_nobody_has_are_shown_with_the_reason_why_nothing_is_done(site):
    site.record(life(), 990)
    text = "2 partitions have no owner; not mended: the policy says `mend: false`"
    nobody_has = Unowned(
        partitions=2, since_s=30.0, tries=0, why_not="the policy says `mend: false`", text=text
    )
    site.known.unowned_of = {"g": nobody_has}.get
    for path in ("/", "/groups/g"):
        assert text in html.unescape(site.http.get(path).text)
    (group,) = msgspec.json.decode(site.http.get("/api/groups").content, type=Snapshot).groups
    assert group.unowned == nobody_has
    site.known.unowned_of = lambda _: None
    assert "no owner;" not in site.http.get("/groups/g").text


def test_the_json_is_the_documented_struct(site):
    site.record(life(owned=topic(0, 1)), 990)
    decode: Callable[[bytes], Snapshot] = msgspec.json.Decoder(Snapshot).decode
    (group,) = decode(site.http.get("/api/groups").content).groups
    assert group.events == ()
    (group,) = decode(site.http.get("/api/groups?events=1").content).groups
    assert len(group.events) == 4
    one = msgspec.json.decode(site.http.get("/api/groups/g").content, type=GroupView)
    assert one == group


def test_the_timeline_shows_a_hand_over_and_the_pause_before_it(site):
    site.record(life("m-1", owned=topic(0, 1)), 900)
    site.record([changed("Stable", "CompletingRebalance", "m-1", owned=topic(0))], 950)
    site.record(life("m-2", owned=topic(1)), 960)
    drawn = timeline(site.snapshot().groups[0], NOW_S)
    assert drawn.seconds == pytest.approx(101)
    first, second = drawn.lanes
    assert [(bar.owner, round(bar.seconds)) for bar in first.bars] == [("app-m-1", 100)]
    assert [(bar.owner, round(bar.seconds)) for bar in second.bars] == [
        ("app-m-1", 50),
        ("no owner", 10),
        ("app-m-2", 40),
    ]
    assert second.bars[-1].lasts
    assert sum(bar.width for bar in second.bars) == pytest.approx(100 * 100 / 101)
    assert [tick.text for tick in drawn.ticks] == ["now", "-30 s", "-60 s", "-90 s"], "one unit on an axis"
    assert longest_without_owner(drawn, 955, NOW_S) == pytest.approx(10)
    assert longest_without_owner(drawn, 961, NOW_S) == 0


def test_the_words_about_the_last_rebalance_say_what_the_picture_shows(site):
    site.record(life("m-1", owned=topic(0, 1)), 900)
    site.record([changed("Stable", "CompletingRebalance", "m-1", owned=topic(0))], 950)
    site.record([changed("CompletingRebalance", "Stable", "m-1", owned=topic(0))], 950.001)
    site.record([changed("Stable", "Stable", "m-2", owned=topic(1))], 950.3)
    text = site.http.get("/groups/g").text
    assert "its members rejoined within 1 ms" in text
    assert "a partition was without an owner for 300 ms" in text


def test_a_client_that_gets_another_member_id_keeps_its_colour(site):
    names = {"client_id": "app"}
    site.record(life("old", protocol="classic", owned=topic(0), **names), 900)
    site.record([changed("Stable", "Absent", "old", owned=(), **names)], 950)
    site.record(life("new", owned=topic(0), **names), 951)
    drawn = timeline(site.snapshot().groups[0], NOW_S)
    assert {bar.colour for bar in drawn.lanes[0].bars if bar.owner == "app"} == {0}


def test_the_legend_names_who_has_left_too(site):
    site.record(life("m-1", owned=topic(0)), 900)
    site.record([changed("Stable", "Absent", "m-1", owned=())], 950)
    site.record(life("m-2", owned=topic(0)), 951)
    owners = timeline(site.snapshot().groups[0], NOW_S).owners
    assert [(owner.name, owner.colour) for owner in owners] == [("app-m-1", 0), ("app-m-2", 1)]
    legend = site.http.get("/groups/g").text.partition('<p class="legend">')[2].partition("</p>")[0]
    assert "</svg>app-m-1</span>" in legend


def test_a_bar_keeps_the_end_of_a_long_name_which_tells_clients_apart(site):
    site.record(life("m-1", owned=topic(0), client_id="payments-eu-worker-12"), 900)
    assert ">…ents-eu-worker-12</text>" in site.http.get("/groups/g").text


def test_a_member_whose_events_are_gone_is_drawn_all_the_same(site):
    site.record(life("m-1", owned=topic(0)), 100)
    for _ in range(130):
        site.record([event(EventKind.EPOCH_MOVED, "m-2")], 950)
    (lane,) = timeline(site.snapshot().groups[0], NOW_S).lanes
    assert [(bar.owner, round(bar.seconds)) for bar in lane.bars] == [("app-m-1", 51)]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (3.21, "3.2 s"),
        (59, "59 s"),
        (600, "10 min"),
        (9000, "2 h"),
        (3e5, "3 days"),
    ],
)
def test_durations_are_short(seconds, said):
    assert duration(seconds) == said


def test_share_members_have_a_partition_together_and_own_none(site):
    for member in ("m-1", "m-2"):
        site.record(life(member, protocol="share", owned=topic(0)), 990)
    assert "2 share" in site.http.get("/").text
    page = site.http.get("/groups/g").text
    for said in ("t 0", "read the same partitions together", "not polled: a share group"):
        assert said in page
    assert '<svg class="chart"' not in page


def test_tasks_of_streams_are_shown_by_kafkas_own_ids(site):
    tasks = (
        TopicPartitionSet("0", None, (0, 1), Role.ACTIVE),
        TopicPartitionSet("1", None, (2,), Role.STANDBY),
        TopicPartitionSet("1", None, (3,), Role.WARM_UP),
    )
    site.record(life("m-1", protocol="streams", owned=tasks), 990)
    assert "0_0, 0_1; standby 1_2; warm-up 1_3" in site.http.get("/groups/g").text
    lanes = timeline(site.snapshot().groups[0], NOW_S).lanes
    assert [(lane.topic, lane.partition) for lane in lanes] == [("0", 0), ("0", 1)]


def test_connect_workers_are_shown_with_their_connectors_and_their_leader(site):
    running = (TopicPartitionSet("orders", None, (-1, 0, 1), Role.CONNECT),)
    worker = ConnectWorker("http://w1:8083/", 42, "m-1", "http://w1:8083/", 300_000)
    site.record(life("m-1", protocol="connect", owned=running, worker=worker), NOW_S - 60)
    assert "1 Connect" in site.http.get("/").text
    page = site.http.get("/groups/g").text
    for said in (
        "orders, orders-0, orders-1",
        "http://w1:8083/ <strong>leader</strong>",
        "configurations read to 42",
        "Workers here: 1, connectors: 1, tasks: 2, leader: http://w1:8083/",
        "the workers join again in 4 min",
        "<span>orders</span> connector",
        "not a consumer group",
    ):
        assert said in page


def test_partitions_are_put_together():
    assert (
        partitions((TopicPartitionSet("a", None, (0, 1, 2, 3, 7, 9, 10)), TopicPartitionSet("", "id", (1,))))
        == "a 0-3, 7, 9, 10; id 1"
    )
    assert partitions(None) == "not known"


async def real_answers(site: Site, urls: list[str]) -> list[Page]:
    """What the server of the admin port gives to an HTTP client."""
    sock, done = socket.create_server(("127.0.0.1", 0)), trio.Event()
    port = sock.getsockname()[1]

    def ask() -> list[Page]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        pages = []
        for url in urls:
            connection.request("GET", url)
            answer = connection.getresponse()
            pages.append(Page(answer.status, dict(answer.headers), answer.read()))
        connection.close()
        return pages

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_admin, sock, site.app, done.wait)
        pages = await trio.to_thread.run_sync(ask)
        done.set()
    return pages


def test_each_group_can_be_asked_for_over_http_whatever_it_is_called(site):
    for number, group_id in enumerate(GROUP_IDS):
        site.record(life(f"m-{number}", group=group_id), 990)
    urls = [group_path(group_id) for group_id in GROUP_IDS]
    urls += [f"/api{url}" for url in urls]
    urls += [f"/api/groups?id={quote(group_id, safe='')}" for group_id in GROUP_IDS]
    pages = trio.run(real_answers, site, urls)
    assert {page.status_code for page in pages} == {200}
    for number in range(len(GROUP_IDS)):
        page, one, chosen = pages[number :: len(GROUP_IDS)]
        assert f"app-m-{number}<" in page.text or f"app-m-{number} " in page.text
        assert msgspec.json.decode(one.content, type=GroupView).id == GROUP_IDS[number]
        assert [group.id for group in msgspec.json.decode(chosen.content, type=Snapshot).groups] == [
            GROUP_IDS[number]
        ]


def test_control_characters_are_visible_on_the_pages(site):
    names = {"client_id": CONTROL, "reason": CONTROL, "software": CONTROL, "client_host": CONTROL}
    site.record(life(CONTROL, group=CONTROL, owned=topic(0, name=CONTROL), **names), 990)
    for path in ("/", group_path(CONTROL), f"/?q={quote(CONTROL)}"):
        text = site.http.get(path).text
        assert not set(CONTROL) - set("[2J") & set(text)
        assert "u202e" in text


def test_groups_are_told_in_pages(site):
    names = [f"g-{number:04}" for number in range(2 * PAGE + 50)]
    for name in names:
        site.record(life(group=name), 990)
    told, path = [], "/api/groups"
    for left_out in (PAGE + 50, 50, 0):
        page = msgspec.json.decode(site.http.get(path).content, type=Snapshot)
        assert page.left_out == left_out
        told += [group.id for group in page.groups]
        path = f"/api/groups?after={told[-1]}"
    assert told == names
    assert msgspec.json.decode(site.http.get(path).content, type=Snapshot).groups == ()


def test_a_page_has_no_more_groups_than_were_asked_for(site):
    for number in range(PAGE + 50):
        site.record(life(group=f"g-{number:04}"), 990)
    for query, told, left_out in (
        ("limit=2", ["g-0000", "g-0001"], PAGE + 48),
        ("after=g-0147&limit=7", ["g-0148", "g-0149"], 0),
        ("after=g-0147&id=g-0001", [], 0),
        ("id=g-0001&limit=1", ["g-0001"], 0),
    ):
        page = msgspec.json.decode(site.http.get(f"/api/groups?{query}").content, type=Snapshot)
        assert ([group.id for group in page.groups], page.left_out) == (told, left_out)
    page = msgspec.json.decode(site.http.get("/api/groups?limit=1000000").content, type=Snapshot)
    assert len(page.groups) == PAGE


def test_a_group_that_comes_or_goes_between_two_pages_moves_no_other(site):
    for name in ("b", "d", "f"):
        site.record(life(group=name), 990)
    first = msgspec.json.decode(site.http.get("/api/groups?limit=2").content, type=Snapshot)
    assert [group.id for group in first.groups] == ["b", "d"]
    del site.registry.groups["d"]
    for name in ("a", "c", "e"):
        site.record(life(group=name), 990)
    rest = msgspec.json.decode(site.http.get("/api/groups?after=d").content, type=Snapshot)
    assert [group.id for group in rest.groups] == ["e", "f"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/api/groups?limit=x", "limit: expected an integer from 1 to 1000000, got 'x'"),
        ("/api/groups?limit=0", "limit: expected an integer from 1 to 1000000, got '0'"),
        ("/api/groups?limit=1000001", "limit: expected an integer from 1 to 1000000, got '1000001'"),
        ("/api/groups?limit=", "limit: expected an integer from 1 to 1000000, got ''"),
        ("/api/groups?events=yes", "events: expected true or false, got 'yes'"),
        ("/api/groups?after=a&after=b", "after: given twice"),
        (
            "/api/groups?evnts=1",
            "unknown parameter 'evnts'; expected one of `events`, `id`, `after`, `limit`",
        ),
        ("/api/groups/g?events=1", "unknown parameter 'events'; expected one of `id`"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_with_the_reason(site, url, said):
    page = site.http.get(url)
    assert (page.status_code, page.headers["content-type"]) == (400, "application/json")
    assert msgspec.json.decode(page.content) == {"error": said}


def test_what_is_not_there_is_told_as_json_below_api_and_as_text_elsewhere(site):
    answers = [site.http.get("/api/nothing"), site.http.get("/nothing")]
    assert [page.status_code for page in answers] == [404, 404]
    assert [page.text for page in answers] == ['{"error":"not found"}', "Not Found"]
    assert msgspec.json.decode(site.http.get("/api/groups/x").content) == {
        "error": "no such group",
        "group": "x",
    }


def test_the_interface_only_reads(site):
    page = site.http.get("/api/groups", method="POST")
    assert (page.status_code, page.text) == (405, '{"error":"method not allowed"}')
    assert set(page.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_a_page_of_groups_ends_at_its_size(site):
    for number in range(50):
        site.record(life(group=f"g-{number}"), 990)
    encode, snapshot = msgspec.json.encode, site.snapshot()
    page = trio.run(partial(encode_cooperatively, snapshot, encode, max_bytes=20_000))
    assert 15_000 < len(page) < 21_000
    decoded = msgspec.json.decode(page, type=Snapshot)
    assert decoded.left_out == 50 - len(decoded.groups)
    least = msgspec.json.decode(
        trio.run(partial(encode_cooperatively, snapshot, encode, max_bytes=1)), type=Snapshot
    )
    assert len(least.groups) == 1


def test_a_group_with_very_many_members_has_a_page_of_bounded_size(site):
    owned = topic(*range(0, 4000, 2))
    for number in range(2000):
        site.record([event(EventKind.JOINED, f"m-{number}", owned=owned)], 990)
    text = site.http.get("/groups/g").text
    assert len(text) < 1_500_000
    assert "1500 more members" in text


def a_move(**changes: Any) -> MoveView:
    view = MoveView(
        step=1, steps=2, allows="1", phase="moving", settled=True, why="", text="step 1 of 2 (1), settled"
    )
    return msgspec.structs.replace(view, **changes)


def moved(view: MoveView, group_id: str = "payments", protocol: str = "translated") -> str:
    """What the page of a group with this move and one member says of it."""
    site = Site()
    site.known.move_of = lambda _: view
    site.record(life("m1", group=group_id, protocol=protocol), NOW_S - 1)
    page = site.http.get(group_path(group_id)).text
    banner = re.search(r'<div class="banner[^"]*">.*?</div>', page, re.DOTALL)
    assert banner is not None
    return html.unescape(re.sub(r"</?(?:p|code|span)[^>]*>", "", banner[0]))


def test_a_move_that_waits_for_an_approval_shows_the_command_that_gives_it() -> None:
    waits = "waits for an approval of step 2"
    said = moved(a_move(waits=waits, next_step=2, policy="0123456789abcdef"))
    assert "epochgate approve --step 2 --policy 0123456789abcdef payments" in said
    assert "alarm" not in said
    assert "resume" not in said


@pytest.mark.parametrize(("phase", "alarms"), [("paused", False), ("rolled_back", False), ("held", True)])
def test_a_move_that_does_not_go_on_shows_who_has_said_so_and_how_it_does(
    phase: str, *, alarms: bool
) -> None:
    said = moved(a_move(phase=phase, said="pause by uid 7", said_ms=int((NOW_S - 60) * 1000)))
    assert "Last command: pause by uid 7, 60 s ago" in said
    assert "epochgate resume payments" in said
    assert ("alarm" in said) is alarms


@pytest.mark.parametrize("phase", ["aborted", "rolled_back"])
def test_a_move_that_is_taken_back_says_whether_all_are_back(phase: str) -> None:
    view = a_move(phase=phase)
    assert "go back to the classic protocol" in moved(view)
    assert "All of its members are classic again" in moved(view, protocol="classic")


def test_a_held_move_names_translated_members_only_if_there_are_any() -> None:
    view = a_move(phase="held")
    assert "Translated members stay translated" in moved(view)
    assert "Translated members" not in moved(view, protocol="classic")


def test_a_group_id_can_not_command_the_shell_into_which_somebody_copies_the_command() -> None:
    said = moved(a_move(phase="rolled_back"), "$(reboot); 'x")
    assert """epochgate resume '$(reboot); '"'"'x'""" in said
    assert "epochgate resume -- --help" in moved(a_move(phase="rolled_back"), "--help")


def test_commands_name_where_the_proxy_takes_them() -> None:
    assert Control(socket="/run/epoch gate").options == "--control '/run/epoch gate'"


def test_the_banner_of_a_move_that_is_over_warns_of_nothing() -> None:
    over = moved(a_move(step=2, allows="100%", text="step 2 of 2 (100%), settled"))
    assert 'class="banner over"' in over
    assert 'class="banner"' in moved(a_move())


def test_a_refused_policy_is_shown_with_its_errors(site) -> None:
    site.more = {"policy_refused": "policy.yaml:2:5: rules[0].mode: missing", "policy_is_current": False}
    said = "policy file refused, the one before holds: policy.yaml:2:5: rules[0].mode: missing"
    assert said in site.http.get("/").text


def test_clients_that_share_a_client_id_are_told_apart_and_keep_name_and_colour_through_their_moves() -> None:
    registry = GroupRegistry(Policy(default=Mode.TRANSLATE))
    for at, (one, other), (left, gone) in (
        (100, ("a-111111", "b-222222"), ("", "")),
        (200, ("a-333333", "b-444444"), ("a-111111", "b-222222")),
        (300, ("a-555555", "b-666666"), ("a-333333", "b-444444")),
    ):
        for number, (new, old) in enumerate(((one, left), (other, gone))):
            if old:
                gone_now = changed("Stable", "Absent", old, client_id="consumer-g-1", owned=())
                registry.record(gone_now, int((at + number) * 1_000_000))
            joined = event(EventKind.JOINED, new, client_id="consumer-g-1", owned=topic(number))
            registry.record(joined, int((at + number) * 1_000_000) + 1)
    (group,) = registry.views(400 * 1_000_000)
    drawn = timeline(group, 400)
    assert [one.name for one in drawn.owners] == ["consumer-g-1 111111", "consumer-g-1 222222"]
    assert all(len({bar.colour for bar in lane.bars if bar.colour >= 0}) == 1 for lane in drawn.lanes)


def test_rebalances_before_and_after_a_move_are_compared_with_their_counts(site):
    site.record(life(), NOW_S - 10)
    none = Side(0, 0, 0, 0)
    site.known.proof_of = lambda _: ProofView(
        state="live",
        scope="all processes",
        by="pod",
        compared=(
            Compared("join", Side(4, 2_000_000, 3_000_000, 9_000_000), none, Side(3, 0, 0, 0), "shorter"),
            Compared("kill", Side(1, 5_000_000, 5_000_000, 5_000_000), none, none, "too_few"),
        ),
    )
    rows = re.findall(
        r"<tr>.*?</tr>", site.http.get("/groups/g").text.partition('class="compared"')[2], re.DOTALL
    )
    texts = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip() for row in rows[1:3]]
    assert texts == [
        "join 4 2.0 s, a client 3.0 s at most 0 3 no client stopped shorter",
        "kill 1 5.0 s, a client 5.0 s at most 0 0 not enough to say",
    ]
