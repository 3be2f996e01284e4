"""The listener for commands, as those meet it who may give one, and as strangers do."""

import json
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import trio
from cryptography import x509

from proxy.config.control import Control
from proxy.config.tls import ClientAuth
from proxy.control import listener as listener_module
from proxy.control.http_exchange import BODY_BYTES, HEAD_BYTES
from proxy.control.listener import CONNECTIONS, ControlListener
from proxy.control.requests import CommandAnswer
from proxy.metrics.registry import Metrics
from proxy.transport.listeners import BindError
from tests.proxy.fakes.certificates import LOCAL, Authority, connect_tls
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.rollout.commands import Command, CommandKind

BODY = {"group": "payments", "why": "lag grows"}
DONE = CommandOutcome(state=CommandState.DONE, text="rolled back", changed=True)


class Obeyed:
    """What the listener has had obeyed, and with what outcome."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.outcome = DONE
        self.metrics = Metrics()

    async def run(self, command: Command) -> CommandOutcome:
        self.commands.append(command)
        return self.outcome

    def counted(self, result: str) -> float:
        name = "epochgate_control_requests_total"
        return self.metrics.registry.get_sample_value(name, {"result": result}) or 0


def request(body: object = BODY, path: str = "/v1/rollback", method: str = "POST", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Host": "localhost", "Content_Type": "application/json", "Content_Length": str(len(data))}
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in {**given, **headers}.items() if value]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def said(stream: trio.abc.Stream, *parts: bytes) -> tuple[int, dict[str, object]]:
    """The status and the body of the answer; 0 if there is none before the connection ends."""
    data = b""
    with trio.fail_after(10):
        try:
            for part in parts:
                await stream.send_all(part)
            while part := await stream.receive_some():
                data += part
        except trio.BrokenResourceError:
            pass
    if not data:
        return 0, {}
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def sent_slowly(stream: trio.abc.Stream, data: bytes) -> int:
    """How many bytes the other side has taken, one each hundredth of a second, before it has hung up."""
    for number, byte in enumerate(data):
        try:
            await stream.send_all(bytes([byte]))
        except trio.BrokenResourceError:
            return number
        await trio.sleep(0.01)
    return len(data)


@pytest.fixture
def obeyed() -> Obeyed:
    return Obeyed()


@pytest.fixture
async def path(tmp_path: Path, obeyed: Obeyed, nursery: trio.Nursery) -> AsyncIterator[str]:
    """The path of a Unix socket that takes commands."""
    where = str(tmp_path / "control")
    listener = ControlListener(Control(socket=where), obeyed.metrics)
    await nursery.start(listener.serve, obeyed.run)
    yield where
    nursery.cancel_scope.cancel()
    listener.close()


@pytest.fixture
def tell(path: str) -> Callable[..., Awaitable[tuple[int, dict[str, object]]]]:
    """Sends bytes to the Unix socket, and gives the answer."""

    async def send(*parts: bytes) -> tuple[int, dict[str, object]]:
        async with await trio.open_unix_socket(path) as stream:
            return await said(stream, *parts)

    return send


# -- who may -----------------------------------------------------------------------------------------------------------


async def test_a_command_on_the_unix_socket_is_obeyed_and_says_whose_it_is(tell, obeyed: Obeyed) -> None:
    status, body = await tell(request())
    answer = msgspec.convert(body, CommandAnswer)
    assert (status, answer.act, answer.outcome) == (200, "rollback", DONE)
    (command,) = obeyed.commands
    assert (command.act, command.group, command.why) == (CommandKind.ROLLBACK, "payments", "lag grows")
    assert command.by == f"uid {os.getuid()}"
    assert obeyed.counted("done") == 1


@pytest.mark.parametrize(
    ("state", "status"),
    [(CommandState.REFUSED, 409), (CommandState.PENDING, 503), (CommandState.UNAVAILABLE, 503)],
)
async def test_what_does_not_count_is_told_so(tell, obeyed: Obeyed, state, status) -> None:
    obeyed.outcome = CommandOutcome(state=state, text="the next step is 2, not 1")
    answered, body = await tell(request())
    assert (answered, body["outcome"]["text"]) == (status, "the next step is 2, not 1")


def test_nobody_else_may_open_the_socket(tmp_path: Path) -> None:
    where = tmp_path / "control"
    for mode, expected in (("0600", 0o600), ("660", 0o660)):
        listener = ControlListener(Control(socket=str(where), socket_mode=mode), Metrics())
        assert stat.S_IMODE(where.stat().st_mode) == expected
        listener.close()
        assert not where.exists()


def test_what_a_killed_process_left_behind_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    where = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(where))
    listener = ControlListener(Control(socket=str(where)), Metrics())
    listener._socket.listen()
    with pytest.raises(BindError, match="another process does"):
        ControlListener(Control(socket=str(where)), Metrics())
    listener.close()
    where.write_text("precious")
    with pytest.raises(BindError, match="a file that is no socket"):
        ControlListener(Control(socket=str(where)), Metrics())
    assert where.read_text() == "precious"
    with pytest.raises(BindError, match="No such file or directory"):
        ControlListener(Control(socket=str(tmp_path / "nowhere" / "control")), Metrics())


class Tls:
    """A listener by TLS, and clients of it."""

    def __init__(self, folder: Path, obeyed: Obeyed) -> None:
        self.ours, self.other = Authority(folder / "ours"), Authority(folder / "others")
        self.alice = self.ours.issue("alice", "alice.example", common_name="alice")
        self.mallory = self.ours.issue("mallory", "mallory.example", common_name="mallory")
        self.stranger = self.other.issue("alice", "alice.example", common_name="alice")
        self.subject = x509.load_pem_x509_certificate(self.alice[0].read_bytes()).subject.rfc4514_string()
        tls = self.ours.listener_tls(client_ca=str(self.ours.file), client_auth=ClientAuth.REQUIRED)
        self.config = Control(bind=LOCAL, port=0, tls=tls, allowed_subjects=("CN=bob", self.subject))
        self.listener = ControlListener(self.config, obeyed.metrics)

    async def tell(self, who: tuple[Path, Path] | None, *parts: bytes) -> tuple[int, dict[str, object]]:
        context = self.ours.client_context()
        if who is not None:
            context.load_cert_chain(*who)
        stream = await connect_tls(self.listener.port, context)
        try:
            return await said(stream, *parts)
        finally:
            await trio.aclose_forcefully(stream)


@pytest.fixture
async def tls(tmp_path: Path, obeyed: Obeyed, nursery: trio.Nursery) -> AsyncIterator[Tls]:
    one = Tls(tmp_path, obeyed)
    await nursery.start(one.listener.serve, obeyed.run)
    yield one
    nursery.cancel_scope.cancel()
    one.listener.close()


async def test_by_tls_a_certificate_with_an_allowed_subject_may(tls: Tls, obeyed: Obeyed) -> None:
    status, _ = await tls.tell(tls.alice, request())
    assert (status, [command.by for command in obeyed.commands]) == (200, [tls.subject])


async def test_another_subject_of_the_same_authority_may_not_and_hears_which_it_is(
    tls: Tls, obeyed: Obeyed
) -> None:
    status, body = await tls.tell(tls.mallory, request())
    assert status == 403
    assert "CN=mallory" in str(body["error"])
    assert (obeyed.commands, obeyed.counted("invalid")) == ([], 1)


@pytest.mark.parametrize("who", ["stranger", None])
async def test_without_a_certificate_of_the_authority_no_request_is_read(
    tls: Tls, obeyed: Obeyed, who: str | None
) -> None:
    shown = None if who is None else getattr(tls, who)
    try:
        status, _ = await tls.tell(shown, request())
    except trio.BrokenResourceError:
        status = 0
    assert (status, obeyed.commands) == (0, [])


async def test_http_without_tls_is_no_command(tls: Tls, obeyed: Obeyed) -> None:
    async with await trio.open_tcp_stream(LOCAL, tls.listener.port) as stream:
        assert await said(stream, request()) == (0, {})
    assert obeyed.commands == []


# -- strangers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(method="GET"), 405),
        (request(method="PUT"), 405),
        (request(method="DELETE"), 405),
        (request(path="/"), 404),
        (request(path="/v1/rollback/"), 404),
        (request(path="/v1/rollback?group=payments"), 404),
        (request(path="/v1//rollback"), 404),
        (request(path="/v1/../v1/rollback"), 404),
        (request(path="/v1/%72ollback"), 404),
        (request(path="/V1/ROLLBACK"), 404),
        (request(path="http://localhost/v1/rollback"), 404),
        (request(path="/v1/delete"), 404),
        (request(Content_Type="text/plain"), 415),  # all that a page of another origin may send unasked
        (b"OPTIONS /v1/rollback HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n\r\n", 405),
        (request(Content_Type=""), 415),
        (request(b"{"), 400),
        (request(b""), 400),
        (request(b"\xff\xfe"), 400),
        (request([]), 400),
        (request({}), 400),
        (request({"group": 7}), 400),
        (request({"group": ""}), 400),
        (request({"group": "g" * 256}), 400),
        (request({"group": "g", "by": "root"}), 400),
        (request({"group": "g", "why": "a\nb"}), 400),
        (request({"group": "g", "why": "w" * 201}), 400),
        (request({"group": "g", "step": -1}), 400),
        (request({"group": "g", "step": 10**30}), 400),
        (request({"group": "g", "policy": "DROP"}), 400),
        (request({"group": "g", "id": "../x"}), 400),
        (b"garbage\r\n\r\n", 400),
        (b"POST /v1/rollback HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (request(Content_Length=str(BODY_BYTES + 1)), 413),
        (request(Content_Length="99999999999999999999"), 413),
        (request(Content_Length="-1"), 400),
        (request(X="x" * 2 * HEAD_BYTES), 431),
        # A second request that hides behind the first one's length, or in its chunks.
        (request(Content_Length="0", Transfer_Encoding="chunked"), 411),
        (request(Transfer_Encoding="chunked", Content_Length=""), 411),
        (request(Transfer_Encoding="identity", Content_Length=""), 501),
        (b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"POST /v1/rollback HTTP/1.1\nHost: a\nContent-Length: 2\ncontent-length : 2\n\n{}", 400),
        (b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n{}", 400),
        (b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n , 2\r\n\r\n{}", 400),
        (b"POST /v1/rollback HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-A: 2\r\n\r\n", 400),
    ],
    ids=lambda value: str(value)[:80] if isinstance(value, bytes) else None,
)
async def test_what_is_no_command_is_refused_and_nothing_is_obeyed(
    tell, obeyed: Obeyed, sent: bytes, status: int
) -> None:
    answered, body = await tell(sent)
    assert (answered, list(body)) == (status, ["error"])
    assert obeyed.commands == []
    assert obeyed.counted("invalid") == 1


async def test_what_comes_behind_a_request_is_never_a_second_one(tell, obeyed: Obeyed) -> None:
    status, _ = await tell(request() + request({"group": "another"}))
    assert (status, [command.group for command in obeyed.commands]) == (200, ["payments"])


async def test_a_body_without_an_end_is_refused_by_its_length_and_one_that_is_short_by_time(
    tell, obeyed: Obeyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_S", 0.2)
    assert await tell(request(b"x" * 100, Content_Length="101")) == (0, {})
    assert await tell(request()[:20]) == (0, {})
    assert await tell() == (0, {})
    assert (obeyed.commands, obeyed.counted("invalid")) == ([], 3)


async def test_one_who_sends_a_byte_now_and_then_is_gone_in_time(
    path: str, obeyed: Obeyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_S", 0.3)
    async with await trio.open_unix_socket(path) as stream:
        with trio.fail_after(10):
            sent = await sent_slowly(stream, request())
    assert sent < len(request())
    assert obeyed.commands == []


async def test_a_tls_handshake_that_does_not_end_is_given_up(
    tls: Tls, obeyed: Obeyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_S", 0.2)
    async with await trio.open_tcp_stream(LOCAL, tls.listener.port) as stream:
        await stream.send_all(b"\x16\x03\x01")
        with trio.fail_after(10):
            assert await stream.receive_some() == b""
    assert obeyed.counted("invalid") == 1


async def test_so_many_connections_and_no_more_and_then_again(
    path: str, tell, obeyed: Obeyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = [await trio.open_unix_socket(path) for _ in range(CONNECTIONS)]
    while obeyed.counted("invalid") == 0:
        assert await tell(request()) == (0, {})
    assert obeyed.commands == []
    for one in idle:
        await one.aclose()
    with trio.fail_after(10):
        while (await tell(request()))[0] != 200:
            await trio.lowlevel.checkpoint()


async def test_one_who_does_not_read_the_answer_holds_up_nobody(path: str, tell) -> None:
    deaf = await trio.open_unix_socket(path)
    await deaf.send_all(request())
    assert (await tell(request()))[0] == 200
    await deaf.aclose()


async def test_a_bug_in_a_command_ends_its_connection_alone(tell, obeyed: Obeyed) -> None:
    outcome, obeyed.outcome = obeyed.outcome, None  # type: ignore[assignment]
    assert await tell(request()) == (0, {})
    obeyed.outcome = outcome
    assert (await tell(request()))[0] == 200


def test_tls_of_the_listener_needs_no_more_than_its_files(tmp_path: Path, obeyed: Obeyed) -> None:
    one = Tls(tmp_path, obeyed)
    assert one.listener.certificates is not None
    assert one.listener.certificates.context.verify_mode is ssl.CERT_REQUIRED
    one.listener.close()
