"""`/api/groups` and `/api/groups/<id>`: the picture as JSON (docs/reference/api.md)."""

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy.config.schema import Visibility
from proxy.observability.process_queries import Processes
from proxy.observability.snapshot import GroupView, Snapshot, merge
from proxy.observability.snapshot_encoding import encode_cooperatively

GROUP = "{group_id:group}"
"""Stands in a route for a group id, percent-encoded by the client: any text, with slashes and line breaks."""

_JSON = "application/json"
_NOT_FOUND = 404
_UNAVAILABLE = 503


class _GroupId(Convertor[str]):
    """Starlette's ``path`` ends at a line break, which a group id may have."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("group", _GroupId())


def requested_group(request: Request) -> str:
    """The group id of a request: of its path, or of ``?id=`` for those that clients change in a path (``..``)."""
    group_id: str = request.query_params.get("id", request.path_params["group_id"])
    return group_id


async def merged_snapshot(processes: Processes, *, events: bool) -> Snapshot | None:
    """The picture of this moment, merged of all processes; None if none of them answers.

    ``events``: with the latest events of each group.
    """
    told = await processes.query("groups with events" if events else "groups", Snapshot)
    return merge(told) if told else None


def api_routes(processes: Processes, limits: Visibility) -> list[Route]:
    """The routes of the JSON interface. ``limits`` say how much one answer of ``/api/groups`` has at most."""

    async def groups(request: Request) -> Response:
        parameters = request.query_params
        found = await merged_snapshot(processes, events=parameters.get("events") in ("1", "true"))
        if found is None:
            return _error(_UNAVAILABLE, error="no process answers")
        found = msgspec.structs.replace(
            found, groups=_chosen(found, parameters.get("id"), parameters.get("after"))
        )
        page = await encode_cooperatively(
            found, msgspec.json.encode, most=limits.page_groups, max_bytes=limits.page_max_bytes
        )
        return Response(page, media_type=_JSON)

    async def group(request: Request) -> Response:
        group_id = requested_group(request)
        found = await merged_snapshot(processes, events=True)
        if found is None:
            return _error(_UNAVAILABLE, error="no process answers")
        for one in found.groups:
            if one.id == group_id:
                return Response(msgspec.json.encode(one), media_type=_JSON)
        return _error(_NOT_FOUND, error="no such group", group=group_id)

    return [Route("/api/groups", groups), Route(f"/api/groups/{GROUP}", group)]


def _chosen(found: Snapshot, group_id: str | None, after: str | None) -> tuple[GroupView, ...]:
    """The one group, or those behind ``after`` in the order of their ids."""
    if group_id is not None:
        return tuple(group for group in found.groups if group.id == group_id)
    if after is not None:
        return tuple(group for group in found.groups if group.id > after)
    return found.groups


def _error(status: int, **what: str) -> Response:
    return Response(msgspec.json.encode(what), status, media_type=_JSON)
