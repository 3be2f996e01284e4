"""`epochgate status` against something that answers as a proxy does."""

import http.server
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from typer.testing import CliRunner

from protocol_codecs.classic_clients import OPTIONS, RACKS_IGNORED, Refusal
from proxy.cli import command_line
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.snapshot import Snapshot
from proxy.runtime.exit_codes import ExitCode
from tests.proxy.fakes.known import Known
from tests.proxy.groups.events import MICRO, changed, event, life, topic
from translation.actions import ConnectWorker, EventKind
from translation.moving.in_place import UNNOTICED
from translation.moving.move_view import MoveView
from translation.partitions import Role, TopicPartitionSet
from translation.policy.client_offer import ClientOffer
from translation.policy.policy import Mode, Policy

NOW_S = 100


class Answering:
    """An HTTP server on loopback; ``body`` is what it answers."""

    def __init__(self) -> None:
        self.known = Known()
        self.registry = GroupRegistry(Policy(default=Mode.TRANSLATE), lookups=self.known.lookups())
        self.body: bytes | None = None
        self.page_groups = 1000
        self.refusal: str | None = None
        self.more: dict[str, Any] = {}
        self.columns = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.body or outer.answer(self.path)
                self.send_response(500 if outer.refusal else 200, outer.refusal)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def answer(self, path: str) -> bytes:
        """As the admin port does, in pages of ``self.page_groups``."""
        asked = parse_qs(urlsplit(path).query)
        found, after = self.snapshot(), asked.get("after", [""])[0]
        groups = tuple(one for one in found.groups if one.id > after)
        left_out = max(0, len(groups) - self.page_groups)
        return msgspec.json.encode(
            msgspec.structs.replace(found, groups=groups[: self.page_groups], left_out=left_out)
        )

    def snapshot(self) -> Snapshot:
        return Snapshot(
            time=NOW_S,
            replicas=("host",),
            version="1",
            ready=True,
            not_ready_reason=None,
            policy_version=1,
            policy_is_current="policy_refused" not in self.more,
            groups=tuple(self.registry.views(NOW_S * MICRO)),
            **self.more,
        )

    def record(self, events, at_s: int = 90) -> None:
        for one in events:
            self.registry.record(one, at_s * MICRO)

    def run(self, *arguments: str):
        command = ["status", "--admin", f"127.0.0.1:{self.server.server_port}", *arguments]
        return CliRunner().invoke(command_line(), command, env={"COLUMNS": str(self.columns)})


@pytest.fixture
def proxy() -> Iterator[Answering]:
    answering = Answering()
    thread = threading.Thread(target=answering.server.serve_forever)
    thread.start()
    yield answering
    answering.server.shutdown()
    answering.server.server_close()
    thread.join()


def test_all_groups_in_a_table(proxy):
    proxy.record(life("m-1", owned=topic(0, 1)) + life("m-2", protocol="classic"))
    done = proxy.run()
    assert done.exit_code == 0
    for said in ("host: ready", "g ", "translate", "Stable", "1 of 2", "1 translated, 1 classic"):
        assert said in done.output


def test_one_group_with_its_members_and_events(proxy):
    proxy.record(life("m-1", owned=topic(0, 1), software="sarama/1", generation=3, epoch=7))
    done = proxy.run("g")
    assert done.exit_code == 0
    for said in ("app-m-1", "sarama/1", "2: t 0, 1", "joined", "CompletingRebalance -> Stable"):
        assert said in done.output
    assert "does not know this group" in proxy.run("nobody").output


def test_a_group_whose_member_was_converted_in_place(proxy):
    conversion = event(EventKind.ADOPTED, owned=topic(0), reason=UNNOTICED)
    proxy.record([*life(owned=topic(0), protocol="classic"), conversion])
    said = " ".join(proxy.run("g").output.split())
    assert "app-m-1, adopted, converted in place: 0 ms, not noticed" in said
    assert "1 of 1" in " ".join(proxy.run().output.split())


def test_a_group_of_connect_workers_with_their_leader(proxy):
    worker = ConnectWorker("http://w1/", 5, "m-1", "http://w1/", 300_000)
    running = (TopicPartitionSet("src", None, (-1, 0), Role.CONNECT),)
    proxy.record(life("m-1", protocol="connect", owned=running, worker=worker))
    done = proxy.run("g")
    for said in (
        "workers here: 1, connectors: 1, tasks: 1, leader: http://w1/, the workers join again in",
        "2: src, src-0",
    ):
        assert said in done.output


def test_why_a_group_is_not_translated_comes_with_what_can_be_done_and_what_would_be_lost(proxy):
    offer = ClientOffer(protocol_type="consumer", assignors=("ours",), user_data=(), rack_aware=True)
    reason = "assignor 'ours' is unknown"
    proxy.record([event(EventKind.PASSED_THROUGH, protocol="", reason=reason, offer=offer)])
    said = " ".join(proxy.run("g").output.split())
    assert f"not translatable: {reason}" in said
    assert f"options: {OPTIONS[Refusal.UNKNOWN_ASSIGNOR]}" in said
    assert f"note: {RACKS_IGNORED}" in said


def test_a_stuck_group_is_an_exit_code(proxy):
    proxy.record(life(rebalance_timeout_ms=1000))
    proxy.record([changed("Stable", "PrepareRebalance", rebalance_timeout_ms=1000)])
    for arguments in ((), ("g",), ("--json",), ("-o", "json")):
        assert proxy.run(*arguments).exit_code == ExitCode.PROBLEM_FOUND
    assert "stuck: app-m-1 in PrepareRebalance 9 s beyond" in proxy.run().output
    assert proxy.run("another").exit_code == 0


def test_the_json_is_the_snapshot(proxy):
    proxy.record(life())
    for asked in (("--json",), ("--output", "json"), ("-o", "json")):
        done = proxy.run(*asked)
        assert msgspec.json.decode(done.stdout_bytes, type=Snapshot) == proxy.snapshot()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"v": 1}'])
def test_what_is_no_proxy_is_an_exit_code(proxy, body):
    proxy.body = body
    done = proxy.run()
    assert done.exit_code == ExitCode.FAILED
    assert "error: " in done.stderr


@pytest.mark.parametrize(
    ("admin", "code"),
    [
        ("127.0.0.1:1", ExitCode.FAILED),
        ("ftp://x", ExitCode.USAGE),
        ("file:///etc/passwd", ExitCode.USAGE),
    ],
)
def test_a_proxy_that_cannot_be_asked_is_an_exit_code(admin, code):
    assert CliRunner().invoke(command_line(), ["status", "--admin", admin]).exit_code == code


def test_a_group_id_is_no_markup(proxy):
    proxy.record(life(group="[red]x[/red]"))
    assert "[red]x[/red]" in proxy.run().output


def test_watch_draws_again_what_changed_until_it_is_interrupted(proxy):
    proxy.record(life())
    terminal, its_end = pty.openpty()
    address = f"127.0.0.1:{proxy.server.server_port}"
    process = subprocess.Popen(
        # A run in the background of a shell ignores SIGINT, and so would this.
        [
            "env",
            "--default-signal=INT",
            sys.executable,
            "-m",
            "proxy",
            "status",
            "--watch",
            "--admin",
            address,
        ],
        stdin=subprocess.DEVNULL,
        stdout=its_end,
        stderr=its_end,
        env=os.environ | {"COLUMNS": "160", "LINES": "30", "TERM": "xterm"},
    )
    os.close(its_end)

    def read_until(said: str) -> None:
        drawn = ""
        while said not in drawn:
            ready, _, _ = select.select([terminal], [], [], 30)
            assert ready, f"{said!r} was not drawn, but {drawn!r}"
            drawn += os.read(terminal, 65536).decode(errors="replace")

    try:
        read_until("1 of 1")
        proxy.record(life("m-2", protocol="classic"))
        read_until("1 of 2")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


HOSTILE = "\x1b]0;evil\x07\x1b[2J\r\n\x7f\x9b31m\u202egnp\u2028end"


@pytest.mark.parametrize("arguments", [(), (HOSTILE,), ("--json",), (HOSTILE, "--json")])
def test_what_clients_make_up_can_not_command_the_terminal(proxy, arguments):
    names = {"client_id": HOSTILE, "reason": HOSTILE, "software": HOSTILE, "client_host": HOSTILE}
    proxy.record(life(HOSTILE, group=HOSTILE, owned=topic(0, name=HOSTILE), instance_id=HOSTILE, **names))
    done = proxy.run(*arguments)
    assert done.exit_code == 0
    for character in ("\x1b", "\x07", "\r", "\x7f", "\x9b", "\u202e", "\u2028"):
        assert character not in done.output
    assert "u202egnp" in done.output.replace("\n", ""), "but visible"
    if "--json" in arguments:
        (group,) = msgspec.json.decode(done.output, type=Snapshot).groups
        assert group.id == HOSTILE


def test_an_error_of_what_answers_can_not_command_the_terminal(proxy):
    proxy.refusal = "\x1b[2J"
    done = proxy.run()
    assert done.exit_code == ExitCode.FAILED
    assert "\\x1b[2J" in done.stderr
    assert "\x1b" not in done.stderr


def test_all_pages_are_asked_for(proxy):
    proxy.page_groups = 3
    for number in range(10):
        proxy.record(life(group=f"group-{number}"))
    done = proxy.run()
    assert all(f"group-{number} " in done.output for number in range(10))
    assert msgspec.json.decode(proxy.run("--json").output, type=Snapshot).left_out == 0


def test_a_proxy_that_knows_no_pages_is_not_asked_for_ever(proxy):
    proxy.record(life())
    proxy.body = msgspec.json.encode(msgspec.structs.replace(proxy.snapshot(), left_out=5))
    assert proxy.run().exit_code == 0


MOVE = MoveView(
    step=1,
    steps=2,
    allows="1",
    phase="moving",
    settled=True,
    why="",
    text="step 1 of 2 (1 member), settled",
    waits="waits for an approval of step 2",
    next_step=2,
    policy="0123456789abcdef",
    said="approve of step 1 by uid 7",
    said_ms=(NOW_S - 60) * 1000,
)


def test_it_fits_80_columns_without_breaking_words(proxy):
    proxy.columns = 80
    proxy.record(life("m-1", owned=topic(0, 1), software="apache-kafka-java/4.4.0", generation=3, epoch=7))
    proxy.record(life("m-2", protocol="classic", owned=topic(2), client_host="10.20.30.40"))
    for arguments in ((), ("g",)):
        lines = proxy.run(*arguments).output.splitlines()
        assert max(map(len, lines)) <= 80
        words = set(" ".join(lines).split())
        assert {"translate", "Stable"} <= words
        assert (
            not arguments
            or {"GENERATION", "PROTOCOL", "translated", "classic", "apache-kafka-java/4.4.0"} <= words
        )


def test_moves_and_what_was_said_about_them_are_listed_with_a_command_that_works(proxy):
    proxy.known.move_of = lambda _: MOVE
    proxy.more = {"control": "--control '/run/epoch gate/control'"}
    proxy.record(life("m-1"))
    for arguments in ((), ("g",)):
        done = proxy.run(*arguments)
        assert "moved by steps: step 1 of 2 (1 member), settled" in done.output
        assert "last command: approve of step 1 by uid 7, 60 s ago" in done.output
        assert (
            "epochgate approve --step 2 --policy 0123456789abcdef --control '/run/epoch gate/control' g"
            in done.output
        )
        assert done.exit_code == 0


@pytest.mark.parametrize(
    ("phase", "code"),
    [("held", 3), ("aborted", 3), ("paused", 0), ("rolled_back", 0)],
)
def test_a_move_that_nobody_has_stopped_and_that_does_not_go_on_is_trouble(proxy, phase, code):
    proxy.known.move_of = lambda _: msgspec.structs.replace(MOVE, phase=phase, waits="", next_step=None)
    proxy.record(life("m-1"))
    done = proxy.run()
    assert done.exit_code == code
    assert "to continue the move, run: epochgate resume g" in done.output


def test_a_group_that_waits_for_its_wave_is_no_trouble(proxy):
    waiting = {"phase": "waiting", "step": 0, "waits": "", "next_step": None}
    proxy.known.move_of = lambda _: msgspec.structs.replace(MOVE, **waiting)
    proxy.record(life("m-1"))
    done = proxy.run()
    assert done.exit_code == ExitCode.SUCCESS
    assert "resume" not in done.output


def test_a_refused_policy_is_trouble_and_its_errors_are_listed(proxy):
    proxy.more = {
        "policy_refused": "policy.yaml:2:5: rules[0].mode: missing\npolicy.yaml:3:5: rules[1].mode: missing"
    }
    done = proxy.run()
    assert done.exit_code == ExitCode.PROBLEM_FOUND
    assert "policy file refused, the one before holds" in done.output
    assert "\npolicy.yaml:2:5: rules[0].mode: missing\npolicy.yaml:3:5:" in done.output


def test_events_have_the_time_of_day_and_the_member(proxy):
    same = {"client_id": "consumer-g-1"}
    proxy.record(
        [
            event(EventKind.JOINED, "consumer-g-1-aaaaaa", **same),
            event(EventKind.JOINED, "consumer-g-1-bbbbbb", **same),
        ]
    )
    output = proxy.run("g").output
    assert "00:01:30  consumer-g-1 aaaaaa, joined" in output
    assert "00:01:30  consumer-g-1 bbbbbb, joined" in output
