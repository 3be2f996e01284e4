"""The JSON interface below ``/api`` (docs/reference/api.md)."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy import VERSION
from proxy.admin.api_query import GROUPS, LARGEST_LIMIT, ONE_GROUP, Problem, QueryError, read_query
from proxy.admin.preflight_view import PreflightBoard
from proxy.admin.process_queries import Processes
from proxy.admin.snapshot_encoding import encode_cooperatively
from proxy.config.schema import Config, Visibility
from proxy.groups.fleet_view import FleetReading
from proxy.groups.snapshot import GroupView, Snapshot, merge

InForce = Callable[[], tuple[Config, Path]]
"""Returns the configuration that is in force, and the folder to which its paths were relative."""

GROUP = "{group_id:group}"
"""Route parameter for a group id, percent-encoded: any text, including slashes and line breaks."""

_JSON = "application/json"
_BAD_REQUEST = 400
_NOT_FOUND = 404
_UNAVAILABLE = 503


class _GroupId(Convertor[str]):
    """Matches any text. Starlette's ``path`` stops at a line break, which a group id may contain."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("group", _GroupId())


def requested_group(request: Request) -> str:
    """Return the group id from the path, or from ``?id=`` for ids that clients normalize in paths (``..``)."""
    group_id: str = request.query_params.get("id", request.path_params["group_id"])
    return group_id


async def merged_snapshot(processes: Processes, *, events: bool, members: bool = True) -> Snapshot | None:
    """Take a snapshot of all processes and merge them; None if no process answers.

    ``events``: include the latest events of each group; ``members``: and the members that other replicas serve, not
    only how many they are.
    """
    snapshots = await processes.query("groups with events" if events else "groups", Snapshot)
    if not snapshots:
        return None
    readings = await processes.query("fleet with members" if members else "fleet", FleetReading)
    if not readings:
        return merge(snapshots)
    from proxy.groups.fleet_join import with_fleet  # noqa: PLC0415 - a proxy without a member log has none

    return await with_fleet(merge(snapshots), readings)


def api_routes(
    processes: Processes, limits: Visibility, preflight: PreflightBoard, in_force: InForce | None = None
) -> list[Route]:
    """Return the routes of the JSON API. ``limits`` bound the size of one response of ``/api/groups``.

    ``in_force`` returns the configuration that is in force, with its folder; None: there is no ``/api/config``.
    """

    async def groups(request: Request) -> Response:
        try:
            asked = read_query(request.query_params.multi_items(), GROUPS)
        except QueryError as error:
            return problem(_BAD_REQUEST, str(error))
        found = await merged_snapshot(processes, events=asked.get("events", False))
        if found is None:
            return problem(_UNAVAILABLE, "no process answers")
        found = msgspec.structs.replace(found, groups=_chosen(found, asked.get("id"), asked.get("after")))
        most = min(limits.page_groups, asked.get("limit", LARGEST_LIMIT))
        page = await encode_cooperatively(
            found, msgspec.json.encode, most=most, max_bytes=limits.page_max_bytes
        )
        return Response(page, media_type=_JSON)

    async def group(request: Request) -> Response:
        try:
            read_query(request.query_params.multi_items(), ONE_GROUP)
        except QueryError as error:
            return problem(_BAD_REQUEST, str(error))
        group_id = requested_group(request)
        found = await merged_snapshot(processes, events=True)
        if found is None:
            return problem(_UNAVAILABLE, "no process answers")
        for one in found.groups:
            if one.id == group_id:
                return Response(msgspec.json.encode(one), media_type=_JSON)
        return problem(_NOT_FOUND, "no such group", group_id)

    async def own_preflight(request: Request) -> Response:
        try:
            read_query(request.query_params.multi_items(), {})
        except QueryError as error:
            return problem(_BAD_REQUEST, str(error))
        return Response(msgspec.json.encode(preflight.view), media_type=_JSON)

    return [
        *([] if in_force is None else [_config_route(in_force)]),
        Route("/api/openapi.json", _describe),
        Route("/api/groups", groups),
        Route(f"/api/groups/{GROUP}", group),
        Route("/api/preflight", own_preflight),
    ]


def _config_route(in_force: InForce) -> Route:
    async def config(request: Request) -> Response:
        from proxy.admin.config_view import config_view  # noqa: PLC0415 - few ask for it

        try:
            read_query(request.query_params.multi_items(), {})
        except QueryError as error:
            return problem(_BAD_REQUEST, str(error))
        return Response(msgspec.json.encode(config_view(*in_force())), media_type=_JSON)

    return Route("/api/config", config)


@cache
def _document() -> bytes:
    from proxy.admin.openapi import openapi  # noqa: PLC0415 - few read it

    return msgspec.json.encode(openapi(VERSION))


async def _describe(_request: Request) -> Response:
    return Response(_document(), media_type=_JSON)


def problem(status: int, why: str, group: str | None = None) -> Response:
    """Make the response to a request that failed (:class:`~proxy.admin.api_query.Problem`)."""
    return Response(msgspec.json.encode(Problem(error=why, group=group)), status, media_type=_JSON)


def _chosen(found: Snapshot, group_id: str | None, after: str | None) -> tuple[GroupView, ...]:
    """Return the groups that a query asks for, in the order of their ids."""
    return tuple(
        group
        for group in found.groups
        if (group_id is None or group.id == group_id) and (after is None or group.id > after)
    )
