"""Calls the operator's hook over HTTP: before a step, where its answer may be a veto, and when a step has settled.

Only two answers agree to a step: 2xx without a body, and 2xx with a JSON object that says ``"proceed": true``.
Everything else is a veto: another status or body, none in time, a hook that can't be reached. Calls are few at a time
and wait in a queue of bounded length; none holds up a client. Log and metrics name the hook by its scheme, host and
port: path, query and token may be secrets.
"""

import ssl
from collections.abc import Callable
from pathlib import Path

import h11
import msgspec
import structlog
import trio

from protocol_codecs.foreign import JsonDecoder, Undecodable
from protocol_codecs.printable import printable
from proxy import VERSION
from proxy.config.control import Hook
from proxy.config.regular_file import read_regular_file
from proxy.metrics.registry import Metrics
from proxy.transport.tls_errors import TlsFilesError
from translation.actions import CallHook
from translation.member_log.group_records import LONGEST_WORDS

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.control.hook")

AT_A_TIME = 4
QUEUED = 1_000
"""Calls that may wait; further ones are dropped, and those that ask are made again a minute later."""

ANSWER_BYTES = 64 * 1024
_HEAD_BYTES = 16 * 1024
_RECEIVE_BYTES = 16 * 1024
_MAX_TOKEN_BYTES = 16 * 1024
_TELL_AGAIN_AFTER_S = (1.0, 5.0)
"""Seconds before a call that asks nothing is made once more, if it has failed."""

Answered = Callable[[CallHook, str | None], None]
"""Gets each call that asks, and the veto: None if there is none."""


class HookFailed(Exception):
    """The hook has not answered with 2xx; the message says why, without a secret."""


class HookBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the hook is sent. ``moment`` is ``before_step``, ``settled``, ``held``, ``aborted`` or ``rolled_back``.

    ``step`` is counted from 1 and ``allows`` is what it allows: before a step, the one that is to begin. ``move`` names
    the move among those of its group. ``members`` and ``translated`` are numbers of members, as the broker described
    them last, null if nobody has looked yet. The ``why`` says what holds the move.
    """

    moment: str
    group: str
    policy: str
    move: int
    step: int
    steps: int
    allows: str
    members: int | None
    translated: int | None
    why: str


class HookWord(msgspec.Struct, frozen=True):
    """What the body of an answer to a question says: whether the step may begin, and why not."""

    proceed: bool
    why: str = ""


_decoder = JsonDecoder(HookWord, ANSWER_BYTES)


class HookCaller:
    """Calls one hook."""

    def __init__(self, hook: Hook, metrics: Metrics) -> None:
        self._hook = hook
        self._calls = metrics.hook_calls
        self._send, self._receive = trio.open_memory_channel[CallHook](QUEUED)

    def call(self, call: CallHook) -> None:
        """Make this call as soon as it is its turn."""
        try:
            self._send.send_nowait(call)
        except trio.WouldBlock:
            self._calls.labels("dropped").inc()
            _log.error("a call of the hook is dropped: too many wait", group=call.group)

    async def run(self, answered: Answered) -> None:
        """Make calls until cancelled. ``answered`` is called in the order of the answers."""
        async with trio.open_nursery() as nursery:
            for _ in range(AT_A_TIME):
                nursery.start_soon(self._work, answered)

    async def _work(self, answered: Answered) -> None:
        async for call in self._receive:
            if call.asks:
                await self._ask(call, answered)
            else:
                await self._tell(call)

    async def _ask(self, call: CallHook, answered: Answered) -> None:
        try:
            veto = _veto_in(await self._post(call))
        except HookFailed as failed:
            veto = str(failed)
        self._calls.labels("agreed" if veto is None else "veto").inc()
        if veto is not None:
            _log.warning(
                "the hook does not let a step begin",
                hook=self._hook.shown,
                group=call.group,
                step=call.step + 1,
                reason=veto,
            )
        answered(call, veto)

    async def _tell(self, call: CallHook) -> None:
        for wait_s in (*_TELL_AGAIN_AFTER_S, None):
            try:
                await self._post(call)
            except HookFailed as failed:
                if wait_s is None:
                    self._calls.labels("failed").inc()
                    _log.error(
                        "the hook was not told", hook=self._hook.shown, group=call.group, reason=str(failed)
                    )
                else:
                    await trio.sleep(wait_s)
            else:
                self._calls.labels("told").inc()
                return

    async def _post(self, call: CallHook) -> bytes:
        """Return the body of the answer, if that is 2xx.

        :raises HookFailed: it is not, or there is none.
        """
        try:
            with trio.fail_after(self._hook.timeout_s):
                return await self._exchange(call)
        except HookFailed:
            raise
        except trio.TooSlowError:
            raise HookFailed(f"the hook has not answered within {self._hook.timeout_s:g} s") from None
        except h11.ProtocolError:
            raise HookFailed("the hook does not answer with HTTP") from None
        except ssl.SSLCertVerificationError as error:
            raise HookFailed(f"the hook's certificate is refused: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise HookFailed(f"TLS with the hook failed: {error.reason}") from None
        except trio.BrokenResourceError as error:
            raise HookFailed(_reason(error.__cause__)) from None
        except OSError as error:
            raise HookFailed(_reason(error)) from None
        except Exception as error:  # noqa: BLE001  a bug here: the step waits, and the next call is made all the same
            _log.error("a call of the hook failed", exc_info=error)
            raise HookFailed(f"unexpected error: {error!r}") from None

    async def _exchange(self, call: CallHook) -> bytes:
        request, body = self._request(call)
        stream = await self._connect()
        try:
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
            data = (connection.send(request) or b"") + (connection.send(h11.Data(data=body)) or b"")
            await stream.send_all(data + (connection.send(h11.EndOfMessage()) or b""))
            return await _answer(stream, connection)
        finally:
            await trio.aclose_forcefully(stream)

    def _request(self, call: CallHook) -> tuple[h11.Request, bytes]:
        hook = self._hook
        body = msgspec.json.encode(_body(call))
        headers = [
            ("Host", hook.authority),
            ("User-Agent", f"epochgate/{VERSION}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Accept", "application/json"),
            ("Connection", "close"),
        ]
        if hook.token_file is not None:
            headers.append(("Authorization", f"Bearer {_token(Path(hook.token_file))}"))
        return h11.Request(method="POST", target=hook.target, headers=headers), body

    async def _connect(self) -> trio.abc.Stream:
        hook = self._hook
        tcp = await trio.open_tcp_stream(hook.host, hook.port)
        if not hook.is_tls:
            return tcp
        try:
            context = ssl.create_default_context(cafile=hook.ca)
            stream = trio.SSLStream(tcp, context, server_hostname=hook.host, https_compatible=True)
            await stream.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(tcp)
            raise
        return stream


def check_hook(hook: Hook | None) -> None:
    """Check the files that the hook's section names.

    :raises TlsFilesError: one of them, or both, can't be used; a line for each.
    """
    if hook is None:
        return
    found: list[str] = []
    try:
        ssl.create_default_context(cafile=hook.ca)
    except OSError as error:  # also ssl.SSLError
        found.append(f"`hook.ca`: {hook.ca}: has no certificate of an authority in PEM form: {error}")
    if hook.token_file is not None:
        try:
            _token(Path(hook.token_file))
        except HookFailed as failed:
            found.append(f"`hook.token_file`: {hook.token_file}: {failed}")
    if found:
        raise TlsFilesError("\n".join(found))


def _body(call: CallHook) -> HookBody:
    return HookBody(
        moment="before_step" if call.asks else call.phase,
        group=call.group,
        policy=call.policy,
        move=call.number,
        step=call.step + 1,
        steps=call.steps,
        allows=call.allows,
        members=call.members,
        translated=call.translated,
        why="" if call.asks else call.why,
    )


async def _answer(stream: trio.abc.Stream, connection: h11.Connection) -> bytes:
    """Read the answer.

    :raises HookFailed: it is none with 2xx, or too long.
    """
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(_RECEIVE_BYTES)))
        elif isinstance(event, h11.Response):
            if not 200 <= event.status_code < 300:
                raise HookFailed(f"the hook answers with status {event.status_code}")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > ANSWER_BYTES:
                raise HookFailed(f"the hook's answer has more than {ANSWER_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        elif not isinstance(event, h11.InformationalResponse):
            raise HookFailed("the hook closes the connection without an answer")


def _veto_in(body: bytes) -> str | None:
    """Return what an answer with 2xx says against the step; None if it agrees."""
    if not body.strip():
        return None
    try:
        word = _decoder.decode(body)
    except Undecodable:
        return "the hook's answer is not understood: it has to be empty, or a JSON object with `proceed`, true or false"
    if word.proceed:
        return None
    return printable(word.why)[:LONGEST_WORDS] or "the hook gives no reason"


def _token(file: Path) -> str:
    try:
        token = read_regular_file(file, _MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise HookFailed("the hook's token can't be read") from None
    if not token or not token.isprintable():
        raise HookFailed("the hook's token can't be used")
    return token


def _reason(error: BaseException | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the hook's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS with the hook failed: {error.reason}"
    if isinstance(error, BaseExceptionGroup):  # one for each address
        error = error.exceptions[0]
    said = getattr(error, "strerror", None) or (error and error.__cause__ and _reason(error.__cause__)) or ""
    return said if said.startswith("the hook ") else f"the hook can't be reached: {said or 'connection lost'}"
