"""The OpenAPI document of the admin port, ``GET /api/openapi.json``: schemas from the structs that are served."""

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from proxy.admin.api_query import GROUPS, ONE_GROUP, Parameter, Problem
from proxy.admin.config_view import ConfigView
from proxy.admin.preflight_view import PreflightView
from proxy.groups.snapshot import GroupView, Snapshot


class Alive(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the process is alive; ``reason`` says why it is not."""

    alive: bool
    reason: str | None = None


class Ready(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the process takes clients; ``reason`` says why it does not."""

    ready: bool
    reason: str | None = None


_SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `admin.token_file`, if it is set.",
    },
    "password": {"type": "http", "scheme": "basic", "description": "The same as the password of any user."},
}
_SERVED = (Snapshot, GroupView, PreflightView, ConfigView, Problem, Alive, Ready)


def openapi(version: str) -> dict[str, Any]:
    """Make the document. ``version`` is the software's."""
    references, schemas = msgspec.json.schema_components(_SERVED, ref_template="#/components/schemas/{name}")
    answers = {
        kind: {"application/json": {"schema": reference}}
        for kind, reference in zip(_SERVED, references, strict=True)
    }
    for schema in schemas.values():
        schema["description"] = inspect.cleandoc(schema.get("description", "")).replace("``", "`")
    problems = {
        "400": _answer("An unknown or malformed query parameter.", answers[Problem]),
        "503": _answer("No process answers.", answers[Problem]),
    }
    group_id = {"name": "group_id", "in": "path", "required": True, "schema": {"type": "string"}}
    group_id["description"] = "The id of the group, percent-encoded."
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Epochgate",
            "version": version,
            "summary": "The admin port of an Epochgate proxy. It only reads.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/api/groups": _get(
                "All groups",
                "Groups in the order of their ids, in pages: while `left_out` is not 0, ask again with `after`.",
                _parameters(GROUPS),
                {"200": _answer("A page of groups.", answers[Snapshot]), **problems},
            ),
            "/api/groups/{group_id}": _get(
                "One group",
                "A group with its members and latest events.",
                [group_id, *_parameters(ONE_GROUP)],
                {
                    "200": _answer("The group.", answers[GroupView]),
                    "404": _answer("No such group.", answers[Problem]),
                    **problems,
                },
            ),
            "/api/preflight": _get(
                "Preflight",
                "What the proxy's own last preflight found in the cluster and its groups.",
                [],
                {
                    "200": _answer("The last preflight, or why there is none.", answers[PreflightView]),
                    "400": problems["400"],
                },
            ),
            "/api/config": _get(
                "Configuration",
                "The configuration that is in force, as of the last reload.",
                [],
                {
                    "200": _answer("The configuration, without secrets.", answers[ConfigView]),
                    "400": problems["400"],
                },
            ),
            "/healthz": _get(
                "Liveness",
                "Whether the process should be left running.",
                [],
                {
                    "200": _answer("It should.", answers[Alive]),
                    "503": _answer("It should be replaced.", answers[Alive]),
                },
            ),
            "/readyz": _get(
                "Readiness",
                "Whether the process should be given clients.",
                [],
                {
                    "200": _answer("It should.", answers[Ready]),
                    "503": _answer("It should not, now.", answers[Ready]),
                },
            ),
            "/metrics": _get(
                "Metrics",
                "Metrics in Prometheus' text format.",
                [],
                {"200": _answer("The metrics.", {"text/plain": {"schema": {"type": "string"}}})},
            ),
            "/api/openapi.json": _get(
                "This document",
                "The OpenAPI document.",
                [],
                {"200": _answer("The document.", {"application/json": {"schema": {"type": "object"}}})},
            ),
        },
        "components": {"schemas": schemas, "securitySchemes": _SECURITY},
        "security": [{}, *({name: []} for name in _SECURITY)],
    }


def _get(
    title: str, meaning: str, parameters: list[dict[str, Any]], responses: dict[str, Any]
) -> dict[str, Any]:
    return {
        "get": {
            "summary": title,
            "description": meaning,
            "operationId": title.title().replace(" ", ""),
            "parameters": parameters,
            "responses": responses,
        }
    }


def _answer(meaning: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": meaning, "content": content}


def _parameters(known: Mapping[str, Parameter]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "description": one.meaning, "schema": dict(one.schema)}
        for name, one in known.items()
    ]
