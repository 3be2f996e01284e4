"""The hook is called over HTTP, and whatever goes wrong with it is a veto that gives no secret away."""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from proxy.config.control import Hook
from proxy.control import hook_caller
from proxy.control.hook_caller import ANSWER_BYTES, AT_A_TIME, HookCaller, check_hook
from proxy.metrics.registry import Metrics
from proxy.transport.tls_errors import TlsFilesError
from tests.proxy.fakes.certificates import LOCAL, Authority
from translation.actions import CallHook

ASKS = CallHook(
    asks=True,
    group="payments",
    policy="0123456789abcdef",
    number=7,
    step=1,
    steps=3,
    allows="50%",
    phase="moving",
    members=10,
    translated=1,
)
TELLS = CallHook(
    asks=False,
    group="payments",
    policy="0123456789abcdef",
    number=7,
    step=1,
    steps=3,
    allows="50%",
    phase="rolled_back",
    why="by uid 7: lag",
)
SECRET = "s3cr3t"  # noqa: S105  no real one

Respond = Callable[[trio.abc.Stream], Awaitable[None]]


def answer(status: int, body: str = "", **headers: str) -> Respond:
    async def respond(stream: trio.abc.Stream) -> None:
        lines = [f"HTTP/1.1 {status} said", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await stream.send_all(("\r\n".join(lines) + "\r\n\r\n" + body).encode())

    return respond


class HookServer:
    """Somebody's hook: keeps what it was sent, and responds as the test says."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.respond: Respond = answer(200)
        self.open = self.most = 0
        self.port = 0
        self._tls = tls

    async def serve(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, self._one, 0, host=LOCAL)
            (listener,) = await nursery.start(serve)
            self.port = listener.socket.getsockname()[1]
            task_status.started()

    async def _one(self, plain: trio.SocketStream) -> None:
        stream: trio.abc.Stream = plain
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            if self._tls is not None:
                stream = trio.SSLStream(plain, self._tls, server_side=True, https_compatible=True)
            data = b""
            while b"\r\n\r\n" not in data:
                data += bytes(await stream.receive_some()) or b"\r\n\r\n"
            head, _, body = data.partition(b"\r\n\r\n")
            self.heads.append(head.decode())
            if body:
                self.bodies.append(json.loads(body))
            await self.respond(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.open -= 1
            await trio.aclose_forcefully(stream)


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[HookServer]:
    one = HookServer()
    await nursery.start(one.serve)
    yield one
    nursery.cancel_scope.cancel()


class Caller:
    """Calls a hook, and gives what was answered."""

    def __init__(self, hook: Hook) -> None:
        self.metrics = Metrics()
        self.answers: list[str | None] = []
        self._caller = HookCaller(hook, self.metrics)

    async def make(self, *calls: CallHook) -> list[str | None]:
        """Make calls until all that ask are answered, and all others counted."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._caller.run, lambda _call, veto: self.answers.append(veto))
            for call in calls:
                self._caller.call(call)
            with trio.fail_after(20):
                while self.counted() < len(calls):
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        return self.answers

    def counted(self, *results: str) -> float:
        name = "epochgate_hook_calls_total"
        names = results or ("agreed", "veto", "told", "failed", "dropped")
        return sum(self.metrics.registry.get_sample_value(name, {"result": one}) or 0 for one in names)


def hook(server: HookServer, path: str = "/", **keys: Any) -> Hook:
    return Hook(url=f"http://{LOCAL}:{server.port}{path}", **keys)


async def test_before_a_step_the_hook_is_asked_with_what_is_known(server: HookServer) -> None:
    caller = Caller(hook(server, f"/steps?token={SECRET}"))
    assert await caller.make(ASKS) == [None]
    assert server.heads[0].splitlines()[0] == f"POST /steps?token={SECRET} HTTP/1.1"
    assert server.bodies == [
        {
            "moment": "before_step",
            "group": "payments",
            "policy": "0123456789abcdef",
            "move": 7,
            "step": 2,
            "steps": 3,
            "allows": "50%",
            "members": 10,
            "translated": 1,
            "why": "",
        }
    ]


async def test_afterwards_it_is_told(server: HookServer) -> None:
    caller = Caller(hook(server))
    assert await caller.make(TELLS) == []
    (body,) = server.bodies
    assert (body["moment"], body["why"], body["members"]) == ("rolled_back", "by uid 7: lag", None)
    assert caller.counted("told") == 1


NO_AGREEMENT = (
    "ok", "false", "true", "null", "[]", "0", '"proceed"', "{}", '{"other": 1}', '{"Proceed": true}',
    '{"proceed": 1}', '{"proceed": null}', '{"proceed": true}{"proceed": false}', '{"proceed": true, "why": 1}',
    '\ufeff{"proceed": false}', '\ufeff{"proceed": true}', '{"x":' + "[" * 2_000,
    '{"proceed": true, "x": ' + "[" * 60_000,
    '{"proceed": true, "x": ' + "[" * 1_500 + "]" * 1_500 + "}", "<html>", "\0",
)  # fmt: skip
"""Bodies that say nothing, or something else, or more than a decoder can stand."""


@pytest.mark.parametrize(
    ("respond", "veto"),
    [
        (answer(200), None),
        (answer(204), None),
        (answer(200, "\r\n"), None),
        (answer(200, '{"proceed": true}'), None),
        (answer(200, ' {"other": 1, "proceed": true}\n'), None),
        *((answer(200, body), "not understood") for body in NO_AGREEMENT),
        (answer(200, '{"proceed": false, "why": "full moon"}'), "full moon"),
        (answer(200, '{"proceed": false}'), "the hook gives no reason"),
        (answer(200, '{"proceed": false, "why": "a\\u001b[31mb"}'), "a\\x1b[31mb"),
        (answer(200, '{"proceed": false, "why": "' + "w" * 999 + '"}'), "w" * 200),
        (answer(200, '{"proceed": "no"}'), "not understood"),
        (answer(200, '{"proceed": false'), "not understood"),
        (answer(302, Location="http://127.0.0.1:1/"), "the hook answers with status 302"),
        (answer(404), "the hook answers with status 404"),
        (answer(503, '{"proceed": true}'), "the hook answers with status 503"),
        (answer(200, "x" * (ANSWER_BYTES + 1)), "more than 65536 bytes"),
    ],
)
async def test_which_answers_are_a_veto(server: HookServer, respond: Respond, veto: str | None) -> None:
    server.respond = respond
    (said,) = await Caller(hook(server)).make(ASKS)
    assert said == veto if veto is None else veto in str(said)
    assert len(server.heads) == 1, "no redirect is followed"


def sends(data: bytes) -> Respond:
    async def respond(stream: trio.abc.Stream) -> None:
        await stream.send_all(data)

    return respond


@pytest.mark.parametrize(
    ("data", "veto"),
    [
        (b"", "closes the connection without an answer|does not answer with HTTP"),
        (b"garbage\r\n\r\n", "does not answer with HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "does not answer with HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000, "does not answer with HTTP"),
    ],
)
async def test_what_is_no_answer_is_a_veto(server: HookServer, data: bytes, veto: str) -> None:
    server.respond = sends(data)
    (said,) = await Caller(hook(server)).make(ASKS)
    assert any(one in str(said) for one in veto.split("|")), said


async def test_one_that_does_not_answer_or_answers_a_byte_now_and_then_is_a_veto_in_time(
    server: HookServer,
) -> None:
    async def silent(_stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    async def slow(stream: trio.abc.Stream) -> None:
        while True:
            await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            await trio.sleep(0.01)

    for server.respond in (silent, slow):
        (said,) = await Caller(hook(server, timeout_s=0.2)).make(ASKS)
        assert said == "the hook has not answered within 0.2 s"


async def test_one_that_can_not_be_reached_is_a_veto(server: HookServer) -> None:
    gone = Hook(url=f"http://{LOCAL}:1/{SECRET}", timeout_s=5)
    with capture_logs() as lines:
        (said,) = await Caller(gone).make(ASKS)
    assert "the hook can't be reached" in str(said)
    assert SECRET not in str(lines) + str(said)
    assert lines[-1]["hook"] == f"http://{LOCAL}:1"


async def test_what_could_not_be_told_is_told_again_and_then_logged(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_caller, "_TELL_AGAIN_AFTER_S", (0.01, 0.01))
    server.respond = answer(500)
    caller = Caller(hook(server))
    await caller.make(TELLS)
    assert (len(server.bodies), caller.counted("failed")) == (3, 1)


async def test_a_few_calls_are_made_at_a_time_and_others_wait(server: HookServer) -> None:
    caller = Caller(hook(server))
    assert await caller.make(*[ASKS] * 20) == [None] * 20
    assert server.most <= AT_A_TIME


async def test_so_many_calls_wait_and_no_more(server: HookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_caller, "QUEUED", 3)
    caller = Caller(hook(server))
    await caller.make(*[ASKS] * 5)
    assert (caller.counted("dropped"), caller.counted("agreed")) == (2, 3)


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
async def secure(authority: Authority, nursery: trio.Nursery) -> AsyncIterator[HookServer]:
    one = HookServer(authority.server_context())
    await nursery.start(one.serve)
    yield one
    nursery.cancel_scope.cancel()


async def test_by_tls_a_token_goes_with_it_and_appears_nowhere_else(
    secure: HookServer, authority: Authority, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    by_tls = Hook(url=f"https://{LOCAL}:{secure.port}/", ca=str(authority.file), token_file=str(token))
    check_hook(by_tls)
    secure.respond = answer(403)
    with capture_logs() as lines:
        (said,) = await Caller(by_tls).make(ASKS)
    assert f"Authorization: Bearer {SECRET}".lower() in secure.heads[0].lower()
    assert said == "the hook answers with status 403"
    assert SECRET not in str(lines)


async def test_a_hook_with_another_certificate_gets_nothing(secure: HookServer, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    for url, ca in (
        (f"https://{LOCAL}:{secure.port}/", other.file),
        (f"https://{LOCAL}:{secure.port}/", None),
    ):
        (said,) = await Caller(Hook(url=url, ca=None if ca is None else str(ca))).make(ASKS)
        assert "the hook's certificate is refused" in str(said)
    assert not any(secure.heads)


async def test_a_token_that_can_not_be_read_is_a_veto_and_nothing_is_sent(
    secure: HookServer, authority: Authority, tmp_path: Path
) -> None:
    for content in (None, b"", b"two\nlines", b"\xff"):
        token = tmp_path / "token"
        token.unlink(missing_ok=True)
        if content is not None:
            token.write_bytes(content)
        by_tls = Hook(url=f"https://{LOCAL}:{secure.port}/", ca=str(authority.file), token_file=str(token))
        (said,) = await Caller(by_tls).make(ASKS)
        assert "the hook's token" in str(said)
        with pytest.raises(TlsFilesError, match="token"):
            check_hook(by_tls)
    assert not any(secure.heads)
