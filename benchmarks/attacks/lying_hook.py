"""A hook that answers what no honest hook would."""

import contextlib
import http.server
import itertools
import threading
from collections.abc import Iterator, Mapping

from tools.kafka.ports import LOOPBACK

LIES: Mapping[str, bytes] = {
    "nested 2,000 deep": b'{"x":' + b"[" * 2_000,
    "a veto behind a byte order mark": b'\xef\xbb\xbf{"proceed": false, "why": "no"}',
    "a body false": b"false",
    "invalid UTF-8": b'{"proceed": false, "why": "\xff"}',
    "a text for the truth": b'{"proceed": "true"}',
    "not closed": b'{"proceed": tru',
    "a lone surrogate": b'{"proceed": false, "why": "\\ud800"}',
    "longer than it may be": b'{"proceed": false, "why": "' + b"x" * 100_000 + b'"}',
}
"""No lie agrees to a step."""


class LyingHook:
    """Gives the lies in turn, or one of them; ``asked`` counts the calls."""

    def __init__(self, only: str | None = None) -> None:
        self.asked = 0
        lies = itertools.cycle(LIES.values() if only is None else [LIES[only]])
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked += 1
                data = next(lies)
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    @contextlib.contextmanager
    def running(self) -> Iterator["LyingHook"]:
        """Answer meanwhile."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
