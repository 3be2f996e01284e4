"""What answers at an admin port may be anything: the client gets a reason, in bounded time and memory."""

import socket
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest

from proxy.admin import admin_client
from proxy.admin.admin_client import NoAnswerError, fetch_groups
from proxy.groups.snapshot import Snapshot
from tests.proxy.preflight.facts import seen, snapshot

TIMEOUT_S = 1.0
Answer = Callable[[socket.socket], None]


class Impostor:
    """Answers every connection in the same way, until it is closed."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self.done.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    self._answer(connection)
                except OSError:
                    continue

    def close(self) -> None:
        self.done.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def impostor() -> Iterator[Callable[[Answer], Impostor]]:
    started = []

    def start(answer: Answer) -> Impostor:
        started.append(Impostor(answer))
        return started[-1]

    yield start
    for one in started:
        one.close()


def http(body: bytes, status: str = "200 OK") -> Answer:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + body)


def page(name: str, left_out: int) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(snapshot(seen(name)), left_out=left_out))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda connection: connection.sendall(b"\0\0\0\x10garbage of Kafka"), "not Epochgate"),
        (lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "not Epochgate"),
        (lambda _: None, "closed"),
        (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200), "not Epochgate"),
        (
            lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"),
            "not Epochgate",
        ),
        (http(b"<html>"), "not Epochgate"),
        (http(b"{}"), "not Epochgate"),
        (http(b'{"x":' * 100_000), "not Epochgate"),
        (http(b'{"v": 1, "time": "now"}'), "not Epochgate"),
        (http(b"no", "500 Internal Server Error"), "500"),
    ],
)
def test_what_is_no_proxy_is_said(impostor, answer, said):
    with pytest.raises(NoAnswerError, match=said):
        fetch_groups(impostor(answer).url, Snapshot, timeout_s=TIMEOUT_S)


def test_an_answer_that_comes_byte_by_byte_is_given_up(impostor, monkeypatch):
    monkeypatch.setattr(admin_client, "_PAGE", 1)
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not stop.wait(0.05):
            connection.sendall(b" ")

    try:
        with pytest.raises(NoAnswerError, match="does not end"):
            fetch_groups(impostor(drip).url, Snapshot, timeout_s=TIMEOUT_S)
    finally:
        stop.set()


def test_an_answer_without_end_is_not_kept(impostor, monkeypatch):
    monkeypatch.setattr(admin_client, "_MOST_BYTES", 10_000_000)

    def pour(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * 65_536)

    with pytest.raises(NoAnswerError, match="longer than any"):
        fetch_groups(impostor(pour).url, Snapshot, timeout_s=TIMEOUT_S)


def test_pages_without_end_are_not_asked_for(impostor, monkeypatch):
    monkeypatch.setattr(admin_client, "_MOST_BYTES", 100_000)
    asked = []

    def another(connection: socket.socket) -> None:
        asked.append(1)
        http(page(f"g{len(asked):06}", left_out=1))(connection)

    with pytest.raises(NoAnswerError, match="longer than any"):
        fetch_groups(impostor(another).url, Snapshot, timeout_s=TIMEOUT_S)
    assert len(asked) < 1000


def test_pages_that_end_are_put_together(impostor):
    pages = iter([page("a", left_out=1), page("b", left_out=0)])

    def next_page(connection: socket.socket) -> None:
        http(next(pages))(connection)

    answer = impostor(next_page)
    found = fetch_groups(answer.url, Snapshot, timeout_s=TIMEOUT_S)
    assert [one.id for one in found.groups] == ["a", "b"]
