"""The proxy's own preflight as a page and as JSON; in a browser it is seen in tests/integration."""

import html
from functools import partial

import msgspec
import pytest

from proxy.admin.admin_http import Health, SingleProcessBackend, admin_app
from proxy.admin.preflight_report import Finding, Outcome, Report, Status
from proxy.admin.preflight_view import PreflightBoard, PreflightState, PreflightView
from proxy.groups.formatting import ago
from proxy.metrics.registry import Metrics
from tests.proxy.admin.site import NOW_S, Http, Site
from tests.proxy.admin.test_pages import CONTROL, HOSTILE, Elements
from tests.proxy.groups.events import life


def finding(check: str = "translatable", **changed) -> Finding:
    return Finding(**{"check": check, "what": "what is wrong", "do": "what to do", **changed})


def report(*findings: Finding, status: Status = Status.FOUND, **changed) -> Report:
    known = {
        "status": status,
        "brokers": 3,
        "groups": 20,
        "to_move": 7,
        "findings": findings,
        "checks": (
            Outcome(check="translatable", status=Status.FOUND, meaning="Groups can move."),
            Outcome(check="racks", status=Status.PASSED, meaning="No racks."),
            Outcome(
                check="bug_full_group",
                status=Status.NOT_ASKED,
                meaning="None is full.",
                needs="--kafka-version",
            ),
        ),
        "advice": ("Tools can't be detected.",),
    }
    return Report(**{**known, **changed})


class PreflightSite(Site):
    """The admin port with a board that the test writes."""

    def __init__(self) -> None:
        super().__init__()
        self.board = PreflightBoard()
        answers = {
            "groups": partial(self._answer, events=False),
            "groups with events": partial(self._answer, events=True),
        }
        backend = SingleProcessBackend(Metrics(), Health(Metrics()), answers)
        self.http = Http(admin_app(backend, preflight=self.board))

    def done(self, *findings: Finding, **changed) -> None:
        self.board.view = PreflightView(
            state=PreflightState.DONE,
            asked_at=NOW_S - 90,
            took_s=2.5,
            policy_version=1,
            report=report(*findings, **changed),
        )

    @property
    def page(self) -> str:
        answer = self.http.get("/preflight")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        return " ".join(html.unescape(answer.text).split())

    def section(self, heading: str) -> str:
        return self.page.split(f"{heading}</h2>")[1].split("</section>")[0]


@pytest.fixture
def site() -> PreflightSite:
    return PreflightSite()


def test_found_and_unknown_are_told_apart_with_what_to_do(site):
    gap = finding("acls", unknown=True, what="the ACLs: refused", checks=("acl_hosts", "acl_topics"))
    for group in ("a", "b/c"):
        site.record(life(group=group), 990)
    site.done(finding(groups=("a", "b/c", "never seen here")), gap)
    found, unknown = site.section("Found"), site.section("Not known")
    for said in (
        "what is wrong",
        "what to do",
        '<a href="/groups/a">a</a>',
        '<a href="/groups/b%2Fc">b/c</a>',
    ):
        assert said in found
    assert "never seen here" in found
    assert "never%20seen%20here" not in found, "the proxy has no page of it"
    assert "the ACLs" not in found
    assert "the ACLs: refused" in unknown
    assert "not checked: acl_hosts, acl_topics" in unknown
    assert f"{ago(NOW_S - 90, NOW_S)}, policy 1" in site.page
    assert "7<small> of 20" in site.page
    assert "1<small> of 3" in site.page  # checks that passed


def test_the_page_of_a_group_has_what_was_found_of_it(site):
    for group in ("a", "b"):
        site.record(life(group=group), 990)
    site.done(
        finding("max_size", what=f"too large {HOSTILE}", do="raise `group.consumer.max.size`", groups=("a",)),
        finding("racks", what="known and wanted", groups=("a",), accepted=True),
        finding("groups", what="its members: refused", groups=("a",), unknown=True),
    )
    text = " ".join(site.http.get("/groups/a").text.split())
    said = html.unescape(text)
    assert f"Preflight</a>: too large {HOSTILE}. What to do: raise group.consumer.max.size" in said
    assert "Preflight</a> (not known): its members: refused" in said
    assert "known and wanted" not in said
    assert "<script>alert" not in text
    assert "Preflight" not in site.http.get("/groups/b").text


def test_every_check_is_listed_with_its_status(site):
    site.done()
    checks = site.section("Checks")
    assert '<span class="outcome passed">passed</span>' in checks
    assert (
        '<span class="outcome not-asked">not asked</span><span class="note">needs --kafka-version' in checks
    )
    assert "Tools can't be detected." in site.page


def test_what_is_accepted_stands_apart(site):
    site.done(finding(accepted=True, what="known and wanted"), status=Status.PASSED)
    assert "known and wanted" in site.section("Accepted")
    assert "Nothing." in site.section("Found")


def test_many_groups_and_findings_are_counted_not_listed(site):
    groups = tuple(f"g{number:02}" for number in range(25))
    site.done(
        *(finding(groups=groups, groups_left_out=100) for _ in range(60)),
        findings_left_out=3,
    )
    assert "and 105 more" in site.section("Found")
    assert "g20" not in site.page
    assert "13 more findings are left out" in site.page


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (PreflightView(), "makes no preflight"),
        (PreflightView(state=PreflightState.WAITING), "has not ended yet"),
        (PreflightView(state=PreflightState.FAILED, failure="out of memory"), "no end: out of memory"),
    ],
)
def test_a_page_without_a_report_says_why(site, view, said):
    site.board.view = view
    assert said in site.page
    assert "<table" not in site.page


def test_an_older_report_is_shown_as_older(site):
    site.done(finding())
    site.board.view = msgspec.structs.replace(
        site.board.view, state=PreflightState.FAILED, failure="too slow"
    )
    assert "no end: too slow. What follows is older." in site.page
    assert "what is wrong" in site.page


def test_a_report_by_another_policy_says_so(site):
    site.done()
    assert "another one holds now" not in site.page
    site.board.view = msgspec.structs.replace(site.board.view, policy_version=0)
    assert "another one holds now" in site.page


def test_what_clients_and_brokers_make_up_stays_text(site):
    made_up = f"{HOSTILE}{CONTROL}"
    site.done(finding(what=made_up, do=made_up, groups=(made_up,), checks=(made_up,)))
    raw = site.http.get("/preflight").text
    assert "<script>alert" not in raw
    assert "\x1b" not in raw
    assert html.escape("<script>alert(1)</script>") in raw
    scripts = [attributes for tag, attributes in Elements(raw).found if tag == "script"]
    assert scripts == [{"src": "/assets/live.js", "defer": None}]
    for _, attributes in Elements(raw).found:
        assert not {name for name in attributes if name == "style" or name.startswith("on")}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.FOUND, "something was found"),
        (Status.UNKNOWN, "not everything is known"),
        (Status.PASSED, "nothing was found"),
    ],
)
def test_the_list_of_groups_leads_to_it(site, status, said):
    assert "/preflight" not in site.http.get("/").text
    site.done(status=status)
    text = site.http.get("/").text
    assert '<a href="/preflight">Preflight</a>' in text
    assert said in text


def test_the_json_is_the_view(site):
    site.done(finding(groups=("a",)))
    answer = site.http.get("/api/preflight")
    assert msgspec.json.decode(answer.content, type=PreflightView) == site.board.view
    assert site.http.get("/api/preflight?x=1").status_code == 400
    assert b"unknown parameter 'x'; expected none" in site.http.get("/api/preflight?x=1").content
    assert site.http.get("/api/preflight", "POST").status_code == 405
