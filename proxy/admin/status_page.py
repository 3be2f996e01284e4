"""The status page: `/`, `/groups/<id>` for each group, and `/preflight`, rendered on the server.

The script only fetches the page again and replaces what changed; without it the page reloads itself. The content
security policy allows nothing from other origins, because group ids, client ids and reasons are chosen by clients.
"""

from pathlib import Path
from urllib.parse import quote, urlencode

import msgspec
import trio
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from protocol_codecs.printable import printable
from proxy.admin.api import GROUP, merged_snapshot, requested_group
from proxy.admin.preflight_report import Finding, Report
from proxy.admin.preflight_view import PreflightBoard
from proxy.admin.process_queries import Processes
from proxy.groups import formatting
from proxy.groups.group_list import FOR_A_PERSON, SORTS, Query, Standing, chosen, lanes, standing_of, totals
from proxy.groups.snapshot import GroupView
from proxy.groups.timeline import Timeline, client_names, longest_without_owner, timeline
from proxy.metrics.wave_groups import MOST_WAVES
from proxy.runtime.time_slice import TimeSlice

SHOWN = 500
"""Most groups in the list; the filter finds the others."""

_EVENTS_SHOWN = 40
_MEMBERS_SHOWN = 500
_REPLICAS_SHOWN = 50
_FINDINGS_SHOWN = 50
"""Of those found, unknown and accepted each."""
_GROUPS_OF_FINDING = 20
_CONCERNS_SHOWN = 10
"""Findings on the page of one group."""
_PAGES = Path(__file__).parent / "pages"
_ASSETS = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_NOT_FOUND = 404
_UNAVAILABLE = 503
_SAFE = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_OWNERS_SHOWN = 100
_CHANGED_PATHS = frozenset({".", ".."})


def group_path(group_id: str) -> str:
    """Return the path of a group's page."""
    if group_id in _CHANGED_PATHS:  # a browser would resolve them as relative paths
        return f"/groups/?{urlencode({'id': group_id})}"
    return f"/groups/{quote(group_id, safe='')}"


def _shown(value: object) -> object:
    """Escape control characters in text that a template writes; markup stays as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_PAGES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "duration": formatting.duration,
        "ago": formatting.ago,
        "partitions": formatting.partitions,
        "count_partitions": formatting.count_partitions,
        "group_path": group_path,
        "list_path": _list_path,
        "no_query": Query(),
        "thousands": lambda number: f"{number:,}",
        "standing_of": standing_of,
        "FOR_A_PERSON": FOR_A_PERSON,
        "command_argument": formatting.command_argument,
        "time_of_day": formatting.time_of_day,
    }
    return environment


def _list_path(query: Query, **changes: str) -> str:
    """Return the path of the list as a query asks for it, with some of it changed."""
    asked = {name: value for name, value in (msgspec.structs.asdict(query) | changes).items() if value}
    return f"/?{urlencode(asked)}" if asked else "/"


def _query_of(request: Request) -> Query:
    return Query(**{name: request.query_params.get(name, "") for name in Query.__struct_fields__})


def _gap(group: GroupView | None, drawn: Timeline | None, now: float) -> float:
    """Return for how long a partition was without an owner in the group's last rebalance, or since; 0 if none was.

    Also 0 if there are members elsewhere, who may have owned it.
    """
    if group is None or drawn is None or group.last_rebalance is None or group.progress.elsewhere:
        return 0.0
    return longest_without_owner(drawn, group.last_rebalance.started_at, now)


async def _rendered(template: Template, **context: object) -> str:
    """Render a template in time slices."""
    time_slice, parts = TimeSlice(), list[str]()
    for part in template.generate(context):
        parts.append(part)
        await time_slice.yield_if_spent()
    return "".join(parts)


def _no_answer() -> Response:
    return Response(
        "No proxy process answers at the moment. Please reload the page.", _UNAVAILABLE, headers=_SAFE
    )


def _findings(report: Report | None) -> dict[str, object]:
    """Return what the page says of the findings: found, unknown and accepted apart."""
    every = () if report is None else report.findings
    apart = {
        "found": [one for one in every if not one.unknown and not one.accepted],
        "unknown": [one for one in every if one.unknown and not one.accepted],
        "accepted": [one for one in every if one.accepted],
    }
    return {
        **{name: listed[:_FINDINGS_SHOWN] for name, listed in apart.items()},
        "counts": {name: len(listed) for name, listed in apart.items()},
        "left_out": sum(max(0, len(listed) - _FINDINGS_SHOWN) for listed in apart.values()),
        "passed": 0 if report is None else sum(one.status == "passed" for one in report.checks),
    }


def _concerning(report: Report | None, group_id: str, shown: GroupView | None) -> list[Finding]:
    """Return the findings that name a group, without the one that the page says anyway (``why_not``)."""
    every = () if report is None else report.findings
    mine = [one for one in every if group_id in one.groups and not one.accepted]
    is_told = shown is not None and shown.why_not is not None
    return [one for one in mine if not (is_told and one.check == "translatable")][:_CONCERNS_SHOWN]


def page_routes(processes: Processes, preflight: PreflightBoard) -> list[Route]:
    """Return the routes of the pages and their assets."""
    environment = _environment()
    overview, one_group = environment.get_template("groups.html"), environment.get_template("group.html")
    own_preflight = environment.get_template("preflight.html")

    async def groups(request: Request) -> Response:
        snapshot = await merged_snapshot(processes, events=False, members=False)
        if snapshot is None:
            return _no_answer()
        query = _query_of(request)
        of_owner = chosen(snapshot.groups, Query(owner=query.owner))
        found = chosen(of_owner, query)
        fleet = snapshot.fleet
        replicas, left_out = ((), 0) if fleet is None else (fleet.replicas, fleet.replicas_left_out)
        text = await _rendered(
            overview,
            snapshot=snapshot,
            now=snapshot.time,
            groups=found[:SHOWN],
            found=len(found),
            query=query,
            lanes=lanes(of_owner)[:MOST_WAVES],
            has_lag=any(one.lag is not None for one in found),
            has_owner=not query.owner and any(one.owner for one in found),
            standings=[one for one in Standing if any(standing_of(group) is one for group in of_owner)],
            owners=sorted({one.owner for one in snapshot.groups if one.owner})[:_OWNERS_SHOWN],
            sorts=[one for one in SORTS if one],
            replicas=replicas[:_REPLICAS_SHOWN],
            more_replicas=left_out + max(0, len(replicas) - _REPLICAS_SHOWN),
            sums=totals(of_owner),
            preflight=preflight.view,
        )
        return HTMLResponse(text, headers=_SAFE)

    async def group(request: Request) -> Response:
        group_id = requested_group(request)
        snapshot = await merged_snapshot(processes, events=True)
        if snapshot is None:
            return _no_answer()
        shown = next((one for one in snapshot.groups if one.id == group_id), None)
        fleet = None if shown is None else shown.fleet
        elsewhere, left_out = ((), 0) if fleet is None else (fleet.elsewhere, fleet.left_out)
        # In a thread, since thousands of partitions would delay clients.
        drawn = None if shown is None else await trio.to_thread.run_sync(timeline, shown, snapshot.time)
        text = await _rendered(
            one_group,
            snapshot=snapshot,
            now=snapshot.time,
            group=shown,
            group_id=group_id,
            drawn=drawn,
            names={} if shown is None else client_names(shown),
            gap=_gap(shown, drawn, snapshot.time),
            members=() if shown is None else shown.members[:_MEMBERS_SHOWN],
            concerns=_concerning(preflight.view.report, group_id, shown),
            elsewhere=elsewhere[:_MEMBERS_SHOWN],
            more_elsewhere=left_out + max(0, len(elsewhere) - _MEMBERS_SHOWN),
            events=() if shown is None else shown.events[: -_EVENTS_SHOWN - 1 : -1],
        )
        return HTMLResponse(text, 200 if shown is not None else _NOT_FOUND, headers=_SAFE)

    async def preflights(_request: Request) -> Response:
        snapshot = await merged_snapshot(processes, events=False, members=False)
        if snapshot is None:
            return _no_answer()
        view = preflight.view
        text = await _rendered(
            own_preflight,
            snapshot=snapshot,
            now=snapshot.time,
            view=view,
            report=view.report,
            known={group.id for group in snapshot.groups},
            groups_shown=_GROUPS_OF_FINDING,
            **_findings(view.report),
        )
        return HTMLResponse(text, headers=_SAFE)

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return Response("no such file", _NOT_FOUND, headers=_SAFE)
        headers = _SAFE | {"cache-control": "no-cache"}
        return FileResponse(_PAGES / name, media_type=_ASSETS[name], headers=headers)

    return [
        Route("/", groups),
        Route(f"/groups/{GROUP}", group),
        Route("/preflight", preflights),
        Route("/assets/{name}", asset),
    ]
