"""``epochgate approve|pause|resume|rollback``: what is printed, and the exit codes."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs
from typer.testing import CliRunner

from proxy.cli import command_line
from proxy.config.control import Control
from proxy.control.listener import ControlListener
from proxy.metrics.registry import Metrics
from proxy.runtime.exit_codes import ExitCode
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.rollout.commands import Command, CommandKind


class Proxy:
    """A listener in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commands: list[Command] = []
        self.outcome = CommandOutcome(state=CommandState.DONE, text="step 1 of 3 (1), paused: by uid 7")
        self._listener = ControlListener(Control(socket=str(path)), Metrics())
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._serves = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,))
        self._thread.start()
        self._serves.wait(10)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._listener.serve, self._run)
                self._serves.set()

    async def _run(self, command: Command) -> CommandOutcome:
        self.commands.append(command)
        return self.outcome

    def close(self) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    one = Proxy(tmp_path / "control")
    yield one
    one.close()


def run(*arguments: str):
    with capture_logs():  # of the proxy, which is in this process
        return CliRunner().invoke(command_line(), list(arguments))


def test_a_command_that_counts(proxy: Proxy) -> None:
    result = run("pause", "payments", "--why", "deployment", "--control", str(proxy.path))
    assert (result.exit_code, result.stdout) == (0, "payments: step 1 of 3 (1), paused: by uid 7\n")
    (command,) = proxy.commands
    assert (command.act, command.group, command.why) == (CommandKind.PAUSE, "payments", "deployment")


def test_an_approval_names_step_and_policy(proxy: Proxy) -> None:
    result = run("approve", "payments", "--step", "2", "--policy", "0123abcd", "--control", str(proxy.path))
    assert result.exit_code == 0
    assert (proxy.commands[0].step, proxy.commands[0].policy) == (2, "0123abcd")
    assert run("approve", "payments", "--control", str(proxy.path)).exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (CommandState.REFUSED, ExitCode.FAILED),
        (CommandState.UNAVAILABLE, ExitCode.FAILED),
        (CommandState.PENDING, ExitCode.UNDECIDED),
    ],
)
def test_one_that_does_not_count_says_why(proxy: Proxy, state: CommandState, code: ExitCode) -> None:
    proxy.outcome = CommandOutcome(state=state, text="the next step is 2, not 1")
    result = run("rollback", "payments", "--control", str(proxy.path))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"payments: rollback {state}: the next step is 2, not 1\n"


def test_as_json(proxy: Proxy) -> None:
    result = run("resume", "payments", "-o", "json", "--control", str(proxy.path))
    report = json.loads(result.stdout)
    assert (report["group"], report["act"], report["outcome"]["state"]) == ("payments", "resume", "done")


def test_the_socket_may_be_that_of_a_configuration(proxy: Proxy) -> None:
    config = proxy.path.with_name("epochgate.yaml")
    config.write_text(
        "upstream: {bootstrap: ['kafka:9092']}\n"
        "listeners: [{advertised_host: proxy, nodes: {'0': 9100}}]\n"
        "control: {socket: control}\n"
    )
    assert run("rollback", "payments", "--config", str(config)).exit_code == 0
    config.write_text(config.read_text().replace("control: {socket: control}\n", ""))
    result = run("rollback", "payments", "--config", str(config))
    assert (result.exit_code, "has no `control.socket`" in result.stderr) == (ExitCode.USAGE, True)


def test_what_the_proxy_takes_for_no_command_is_a_mistake_of_the_command_line(proxy: Proxy) -> None:
    result = run("rollback", "g" * 256, "--control", str(proxy.path))
    assert (result.exit_code, result.stderr) == (ExitCode.USAGE, "error: `group` has 1 to 255 characters\n")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "say where the proxy takes commands"),
        (["--control", "http://127.0.0.1:9081"], "expected a path or https://HOST:PORT"),
        (["--control", "https://127.0.0.1"], "expected a path or https://HOST:PORT"),
        (["--control", "https://127.0.0.1:9081"], "needs --cert"),
        (["--control", "https://127.0.0.1:9081", "--cert", "/nowhere"], "can't be used"),
    ],
)
def test_options_that_lead_nowhere(options: list[str], problem: str) -> None:
    result = run("rollback", "payments", *options)
    assert (result.exit_code, problem in result.stderr) == (ExitCode.USAGE, True)


def test_nobody_answers(tmp_path: Path) -> None:
    result = run("rollback", "payments", "--control", str(tmp_path / "control"))
    assert (result.exit_code, "No such file or directory" in result.stderr) == (ExitCode.FAILED, True)


@pytest.mark.parametrize("data", [b"garbage", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
def test_somebody_else_answers(tmp_path: Path, data: bytes) -> None:
    path = str(tmp_path / "control")

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(data)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        result = run("rollback", "payments", "--control", path)
        thread.join()
    assert result.exit_code == ExitCode.FAILED
    assert result.stderr.startswith(f"error: {path}: ")
