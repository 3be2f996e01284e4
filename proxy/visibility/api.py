"""`/api/groups` and `/api/groups/<id>`: the picture as JSON (docs/api.md)."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy.visibility.encoding import encode_in_turns
from proxy.visibility.snapshot import Snapshot, merge
from proxy.workers.asking import Processes

_JSON = "application/json"
_NOT_FOUND = 404
_UNAVAILABLE = 503


async def picture(processes: Processes, *, events: bool) -> Snapshot | None:
    """The picture of this moment, merged of all processes; None if none of them answers.

    ``events``: with the latest events of each group.
    """
    told = await processes.ask("groups with events" if events else "groups", Snapshot)
    return merge(told) if told else None


def api_routes(processes: Processes) -> list[Route]:
    """The routes of the JSON interface."""

    async def groups(request: Request) -> Response:
        found = await picture(processes, events=request.query_params.get("events") in ("1", "true"))
        if found is None:
            return _error(_UNAVAILABLE, error="no process answers")
        return Response(await encode_in_turns(found, msgspec.json.encode), media_type=_JSON)

    async def group(request: Request) -> Response:
        group_id = request.path_params["group_id"]
        found = await picture(processes, events=True)
        if found is None:
            return _error(_UNAVAILABLE, error="no process answers")
        for one in found.groups:
            if one.id == group_id:
                return Response(msgspec.json.encode(one), media_type=_JSON)
        return _error(_NOT_FOUND, error="no such group", group=group_id)

    return [Route("/api/groups", groups), Route("/api/groups/{group_id:path}", group)]


def _error(status: int, **what: str) -> Response:
    return Response(msgspec.json.encode(what), status, media_type=_JSON)
