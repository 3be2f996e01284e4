"""The admin port over groups that a test makes up, without sockets."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import trio
from msgspec.structs import replace

from proxy.admin.admin_http import Health, SingleProcessBackend, admin_app
from proxy.config.schema import Visibility
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.snapshot import Snapshot
from proxy.metrics.registry import Metrics
from tests.proxy.fakes.known import Known
from tests.proxy.groups.events import MICRO
from translation.policy.policy import Mode, Policy

PAGE = 100
NOW_S = 1000.0


@dataclass
class Page:
    """What came back for a request."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()


class Http:
    """A client of an ASGI application."""

    def __init__(self, app) -> None:
        self._app = app

    def get(self, url: str, method: str = "GET") -> Page:
        return trio.run(self._get, url, method)

    async def _get(self, url: str, method: str) -> Page:
        parts = urlsplit(url)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": quote(parts.query, safe="=&%+").encode(),
            "root_path": "",
            "headers": [],
        }
        sent = []

        async def receive():
            await trio.sleep_forever()

        async def send(message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Page(sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent[1:]))


class Site:
    """The admin port over a book that the test fills."""

    def __init__(self) -> None:
        self.known = Known()
        self.registry = GroupRegistry(Policy(default=Mode.TRANSLATE), lookups=self.known.lookups())
        self.more: dict[str, Any] = {}
        metrics = Metrics()
        self.health = Health(metrics)
        answers = {
            "groups": partial(self._answer, events=False),
            "groups with events": partial(self._answer, events=True),
        }
        self.app = admin_app(
            SingleProcessBackend(metrics, self.health, answers), Visibility(page_groups=PAGE)
        )
        self.http = Http(self.app)

    async def _answer(self, *, events: bool) -> Snapshot:
        return self.snapshot(events=events)

    def snapshot(self, *, events: bool = True) -> Snapshot:
        snapshot = Snapshot(
            time=NOW_S,
            replicas=("host",),
            version="1",
            ready=self.health.reason is None,
            not_ready_reason=self.health.reason,
            policy_version=1,
            policy_is_current=True,
            groups=tuple(self.registry.views(round(NOW_S * MICRO), events=events)),
        )
        return replace(snapshot, **self.more)

    def record(self, events, at_s: float) -> None:
        for one in events:
            self.registry.record(one, round(at_s * MICRO))
