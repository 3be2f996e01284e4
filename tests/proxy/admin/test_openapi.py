"""The JSON interface keeps to its OpenAPI document: asked by a program that reads only that document."""

import re
import socket
import threading
from functools import partial
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import pytest
import schemathesis
import trio
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig

from proxy.admin.admin_http import Health, SingleProcessBackend, admin_app, serve_admin
from proxy.admin.preflight_view import PreflightBoard, PreflightState, PreflightView
from proxy.config.schema import Visibility
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.snapshot import Snapshot
from proxy.metrics.registry import Metrics
from proxy.preflight.judge import judge
from tests.proxy.fakes.serving import config_for
from tests.proxy.groups.events import MICRO, life, topic
from tests.proxy.groups.fleet import FleetLog, replica
from tests.proxy.preflight.facts import facts
from translation.policy.policy import Mode, Policy

NOW_S = 1000
OTHER = replica("other")
PATHS = {
    "/api/config",
    "/api/groups",
    "/api/groups/{group_id}",
    "/api/openapi.json",
    "/api/preflight",
    "/healthz",
    "/readyz",
    "/metrics",
}


class AdminPort:
    """An admin port on loopback, in a thread with a trio of its own."""

    def __init__(self) -> None:
        registry = GroupRegistry(Policy(default=Mode.TRANSLATE))
        for group in ("a", "b", "c", "null", "0", "\U0001f600"):
            for event in life("m-1", group=group, owned=topic(0, 1)) + life(
                "m-2", group=group, protocol="classic"
            ):
                registry.record(event, 990 * MICRO)
        metrics = Metrics()
        self.health = Health(metrics)
        self.health.ready()

        async def answer(*, events: bool) -> Snapshot:
            return Snapshot(
                time=NOW_S,
                replicas=("host",),
                version="1",
                ready=True,
                not_ready_reason=None,
                policy_version=1,
                policy_is_current=True,
                groups=tuple(registry.views(NOW_S * MICRO, events=events)),
            )

        log = FleetLog()
        log.ready(NOW_S - 1)
        log.probe(OTHER, NOW_S - 1)
        log.record("a", "m-3", OTHER, NOW_S - 2, instance_id="i-3")
        log.record("d", "m-1", OTHER, NOW_S - 2)
        reader = log.reader(registry)
        answers = {
            "groups": partial(answer, events=False),
            "groups with events": partial(answer, events=True),
            "fleet": partial(reader.read, members=False),
            "fleet with members": partial(reader.read, members=True),
        }
        self.answering = True
        outer = self

        class Backend(SingleProcessBackend):
            async def query(self, name, kind):
                return await super().query(name, kind) if outer.answering else []

        board = PreflightBoard()
        board.view = PreflightView(
            state=PreflightState.DONE, asked_at=NOW_S, took_s=1.5, report=judge(facts())
        )
        backend = Backend(metrics, self.health, answers)
        self._app = admin_app(backend, Visibility(page_groups=4), board, lambda: (config_for({}), Path()))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        trio.from_thread.run_sync(self._done.set, trio_token=self._token)
        self._thread.join()

    async def _serve(self) -> None:
        self._done, self._token = trio.Event(), trio.lowlevel.current_trio_token()
        self._started.set()
        await serve_admin(self._socket, self._app, self._done.wait)


@pytest.fixture(scope="module")
def admin():
    with AdminPort() as port:
        yield port


@pytest.fixture(scope="module")
def schema(admin):
    return schemathesis.openapi.from_url(f"{admin.url}/api/openapi.json", config=SchemathesisConfig())


def operation(schema, path):
    return schema[path]["GET"]


def allows(operation, url: str) -> bool:
    """Whether the document allows this query as it is sent: there a number or null is a text like any other."""
    schemas = {one["name"]: one["schema"] for one in operation.definition.raw.get("parameters", ())}
    sent = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    fits = {
        "string": lambda _schema, _text: True,
        "boolean": lambda _schema, text: text in {"true", "false"},
        "integer": lambda schema, text: (
            re.fullmatch("[0-9]{1,9}", text) and schema["minimum"] <= int(text) <= schema["maximum"]
        ),
    }
    return len(dict(sent)) == len(sent) and all(
        name in schemas and fits[schemas[name]["type"]](schemas[name], text) for name, text in sent
    )


def statuses(operation, mode) -> set[int]:
    """What is answered to queries of a mode; each answer is held to the document.

    Of those that the document should not allow, the ones that it allows as they are sent are left out.
    """
    found = set()

    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        answer = case.call_and_validate()
        if mode is GenerationMode.POSITIVE or not allows(operation, answer.request.url):
            found.add(answer.status_code)

    ask()
    return found


def test_the_document_names_every_path(schema):
    schema.validate()
    assert set(schema.raw_schema["paths"]) == PATHS


@pytest.mark.parametrize("path", sorted(PATHS - {"/api/groups/{group_id}"}))
def test_answers_are_what_the_document_says(schema, path):
    assert statuses(operation(schema, path), GenerationMode.POSITIVE) == {200}


def test_answers_for_one_group_are_what_the_document_says(schema):
    assert statuses(operation(schema, "/api/groups/{group_id}"), GenerationMode.POSITIVE) <= {200, 404}
    known = operation(schema, "/api/groups/{group_id}").Case(path_parameters={"group_id": "a"})
    assert known.call_and_validate().status_code == 200


@pytest.mark.parametrize("path", ["/api/groups", "/api/groups/{group_id}"])
def test_what_the_document_does_not_allow_is_refused_as_it_says(schema, path):
    found = statuses(operation(schema, path), GenerationMode.NEGATIVE)
    assert 400 in found
    assert found <= {400, 404}


def test_a_proxy_that_takes_no_clients_says_so_as_the_document_says(admin, schema):
    admin.health.not_ready("draining")
    answer = operation(schema, "/readyz").Case().call_and_validate(excluded_checks=[not_a_server_error])
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "reason": "draining"})
    admin.health.ready()


def test_processes_that_do_not_answer_are_told_as_the_document_says(admin, schema):
    admin.answering = False
    for path, parameters in (("/api/groups", {}), ("/api/groups/{group_id}", {"group_id": "a"})):
        case = operation(schema, path).Case(path_parameters=parameters)
        answer = case.call_and_validate(excluded_checks=[not_a_server_error])
        assert (answer.status_code, answer.json()) == (503, {"error": "no process answers"})
    admin.answering = True
