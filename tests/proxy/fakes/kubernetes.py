"""A Kubernetes API server with ConfigMaps: list and watch as kube-apiserver has them, over TLS on loopback."""

import json
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import h11
import trio
import trustme

from proxy.reload.api_server import ServiceAccount

NAMESPACE = "kafka"
NAME = "epochgate-policy"
LABELS = "epochgate.io/policy-set=main"
Json = dict[str, Any]


class FakeApiServer:
    """Serves ConfigMaps to the service account in ``folder``, which it writes; all have the label of ``LABELS``.

    As Roles would, it refuses who selects neither the one called ``NAME`` nor that label.
    """

    def __init__(self, folder: Path, data: dict[str, str] | None) -> None:
        self._authority = trustme.CA()
        (folder / "namespace").write_text(NAMESPACE)
        self._authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        self._folder = folder
        self.rotate_token("first")
        self._version = 100
        self._compacted = 0
        self._events: list[tuple[int, Json]] = []
        self._maps = {} if data is None else {NAME: data}
        self._changed = trio.Condition()
        self._connections: set[trio.SocketStream] = set()
        self.port = 0
        self.requests: list[dict[str, str]] = []
        """The query of each request, with the token as ``token``."""
        self.watchers = 0
        """Watches that are open now."""
        self.refusal: tuple[int, str] | None = None
        """Status and message with which all requests are refused."""
        self.garbage: bytes | None = None
        """What is sent instead of every event."""
        self.ends_watches = False
        """Whether a watch is ended as soon as it begins."""
        self.expired = 0
        """How many of the next watches are refused because their version is too old."""

    @property
    def account(self) -> ServiceAccount:
        """The account of a pod."""
        return ServiceAccount("127.0.0.1", self.port, self._folder)

    def rotate_token(self, token: str) -> None:
        """Take this token from now on, and write it where kubelet would."""
        self.token = token
        (self._folder / "token").write_text(token + "\n")

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert("127.0.0.1").configure_cert(context)
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(
                partial(trio.serve_tcp, partial(self._connection, context), 0, host="127.0.0.1")
            )
            self.port = listener.socket.getsockname()[1]
            task_status.started()

    async def change(self, data: dict[str, str] | None, name: str = NAME) -> None:
        """Put other data into a ConfigMap, or delete it."""
        kind = "DELETED" if data is None else "MODIFIED" if name in self._maps else "ADDED"
        self._version += 1
        if data is not None:
            self._maps[name] = data
        self._events.append((self._version, {"type": kind, "object": self._object(name)}))
        if data is None:
            del self._maps[name]
        await self._notify()

    async def bookmark(self) -> None:
        """Send a bookmark to all who watch, as for those who ask for it."""
        self._version += 1
        at = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": str(self._version)}}
        self._events.append((self._version, {"type": "BOOKMARK", "object": at}))
        await self._notify()

    async def compact(self) -> None:
        """Forget all events: who watches from before is told that its version is too old."""
        self._version += 1
        self._compacted = self._version
        self._events.clear()
        await self._notify()

    async def until_watched(self) -> None:
        """Wait until a watch is open."""
        async with self._changed:
            while not self.watchers:
                await self._changed.wait()

    def cut(self) -> None:
        """Reset all connections."""
        for stream in self._connections:
            stream.socket.shutdown(trio.socket.SHUT_RDWR)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _connection(self, context: ssl.SSLContext, tcp: trio.SocketStream) -> None:
        self._connections.add(tcp)
        stream = trio.SSLStream(tcp, context, server_side=True, https_compatible=True)
        connection = h11.Connection(h11.SERVER)
        try:
            while (event := connection.next_event()) is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            if isinstance(event, h11.Request):
                for part in self._answer(event):
                    await stream.send_all(connection.send(part) or b"")
                if connection.our_state is h11.SEND_BODY:
                    await self._watch(stream, connection, self.requests[-1])
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            pass
        finally:
            self._connections.discard(tcp)
            await trio.aclose_forcefully(stream)

    def _answer(self, request: h11.Request) -> Iterator[Any]:
        """What is sent at once: a whole answer, or the head of a watch."""
        url = urlsplit(request.target.decode())
        token = dict(request.headers)[b"authorization"].decode().removeprefix("Bearer ")
        query = {key: values[0] for key, values in parse_qs(url.query).items()} | {"token": token}
        self.requests.append(query)
        if url.path != f"/api/v1/namespaces/{NAMESPACE}/configmaps":
            return self._whole(404, _status(404, "the server could not find the requested resource"))
        if token != self.token:
            return self._whole(401, _status(401, "Unauthorized"))
        of_one = query.get("fieldSelector") == f"metadata.name={NAME}"
        if not of_one and query.get("labelSelector") != LABELS:
            return self._whole(
                403, _status(403, 'configmaps is forbidden: cannot list resource "configmaps"')
            )
        if self.refusal is not None:
            return self._whole(self.refusal[0], _status(*self.refusal))
        if "watch" not in query:
            items = [self._object(name) for name in self._maps if name == NAME or not of_one]
            listed = {"kind": "ConfigMapList", "apiVersion": "v1", "items": items}
            return self._whole(200, listed | {"metadata": {"resourceVersion": str(self._version)}})
        if self.expired:
            self.expired -= 1
            return self._whole(410, _gone(query["resourceVersion"]))
        headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        return iter([h11.Response(status_code=200, headers=headers)])

    def _whole(self, code: int, body: Json) -> Iterator[Any]:
        text = json.dumps(body).encode() + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
        return iter(
            [h11.Response(status_code=code, headers=headers), h11.Data(data=text), h11.EndOfMessage()]
        )

    async def _watch(self, stream: Any, connection: h11.Connection, query: dict[str, str]) -> None:
        seen = int(query["resourceVersion"])
        self.watchers += 1
        await self._notify()
        try:
            with trio.move_on_after(int(query["timeoutSeconds"])):
                while not self.ends_watches:
                    if seen < self._compacted:
                        await self._send(stream, connection, {"type": "ERROR", "object": _gone(seen)})
                        break
                    for version, event in list(self._events):
                        if version > seen:
                            await self._send(stream, connection, event)
                            seen = version
                    async with self._changed:
                        if self._version <= seen:
                            await self._changed.wait()
            await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
        finally:
            self.watchers -= 1

    async def _send(self, stream: Any, connection: h11.Connection, event: Json) -> None:
        text = json.dumps(event).encode() if self.garbage is None else self.garbage
        half = len(text) // 2  # an event is not a chunk, and not what arrives at once
        for part in (text[:half], text[half:] + b"\n"):
            await stream.send_all(connection.send(h11.Data(data=part)) or b"")

    def _object(self, name: str) -> Json:
        return {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": NAMESPACE, "resourceVersion": str(self._version)},
            "data": self._maps[name],
        }


def _status(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


def _gone(version: object) -> Json:
    return _status(410, f"too old resource version: {version}")
