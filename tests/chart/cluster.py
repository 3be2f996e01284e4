"""As much of a Kubernetes API server as helm's `lookup` asks."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Found = dict[str, Any]

_KINDS = {
    "/api/v1": [("configmaps", "ConfigMap", True), ("namespaces", "Namespace", False)],
    "/apis/apps/v1": [("deployments", "Deployment", True)],
}


class Cluster:
    """Objects by path; all others are not found."""

    def __init__(self, objects: dict[str, Found]) -> None:
        self.objects = {path: {"metadata": {}, **found} for path, found in objects.items()}
        for path, kinds in _KINDS.items():
            self.objects[path] = {
                "kind": "APIResourceList",
                "groupVersion": path.split("/", 2)[2],
                "resources": [
                    {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get"]}
                    for name, kind, namespaced in kinds
                ],
            }
        self.asked: list[str] = []
        """Paths of all requests."""
        self.url = ""

    def answer(self, path: str) -> tuple[int, Found]:
        """The status and the body for a path."""
        self.asked.append(path)
        if path in self.objects:
            return 200, self.objects[path]
        missing = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "NotFound",
            "code": 404,
        }
        return 404, missing


@contextmanager
def running(objects: dict[str, Found]) -> Iterator[Cluster]:
    """Serve a cluster with these objects on loopback."""
    cluster = Cluster(objects)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, found = cluster.answer(self.path.split("?")[0])
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        cluster.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield cluster
        finally:
            server.shutdown()
            thread.join()
