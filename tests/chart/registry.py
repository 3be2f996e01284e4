"""As much of an OCI registry as `helm push` and `helm pull` need: blobs and manifests in memory."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    """What was pushed, by digest and by tag."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        """Media type and content, by digest and by tag."""
        self.host = ""


def digest(content: bytes) -> str:
    """The name of a content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Server(ThreadingHTTPServer):
    registry: Registry


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._give(*self._found())

    def do_GET(self) -> None:
        self._give(*self._found())

    def do_POST(self) -> None:
        self._reply(202, {"Location": f"http://{self.server.registry.host}{self.path}one"})

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        registry = self.server.registry
        if "/manifests/" in self.path:
            kept = self.headers["Content-Type"], content
            registry.manifests |= {digest(content): kept, self._last(): kept}
        else:
            registry.blobs[digest(content)] = content
        self._reply(201, {"Docker-Content-Digest": digest(content), "Location": self.path})

    def _last(self) -> str:
        return self.path.rpartition("/")[2]

    def _found(self) -> tuple[str, bytes | None]:
        if "/manifests/" in self.path:
            return self.server.registry.manifests.get(self._last(), ("", None))
        return "application/octet-stream", self.server.registry.blobs.get(self._last())

    def _give(self, kind: str, content: bytes | None) -> None:
        if content is None:
            self._reply(404, {})
            return
        headers = {"Content-Type": kind, "Docker-Content-Digest": digest(content)}
        self._reply(200, headers, content)

    def _reply(self, status: int, headers: dict[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[Registry]:
    """Serve an empty registry on loopback, without TLS."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.registry = registry = Registry()
        registry.host = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
