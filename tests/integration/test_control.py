"""People have their say in a move by steps, by a Unix socket or by TLS with a client certificate; and so has a hook."""

import contextlib
import http.server
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from support import ROOT
from support.browser import flaws
from support.clients import CONFLUENT
from support.entry import LOOPBACK, Proxy, running_proxy
from support.ownership import overlaps
from support.waiting import eventually, stays

from tests.skips import program
from tools.kafka.ports import free_ports

PARTITIONS = 6
POLICY = """\
default: observe
rules:
  - pattern: ".*"
    mode: translate
    steps: [1, "100%"]
    hold_s: 0
    {more}
"""


def move_of(proxy: Proxy, group: str) -> dict:
    """What /api/groups says of the group's move; empty if nothing."""
    with contextlib.suppress(OSError):
        return proxy.group(group)["move"] or {}
    return {}


def types(kafka, group: str) -> Counter:
    """How many members the broker has of each kind; a classic group has classic ones only."""
    described = kafka.describe(group)
    if described is not None:
        return Counter(one.member_type for one in described.members)
    return Counter(classic=len(kafka.describe_classic(group).members))


def tell(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `epochgate` with these arguments."""
    command = [sys.executable, "-m", "proxy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


class Scene:
    """A group of classic members behind a proxy, and what becomes of it."""

    def __init__(self, kafka, group: str, proxy: Proxy, options: tuple[str, ...]) -> None:
        self._kafka, self._group, self.proxy, self._options = kafka, group, proxy, options

    def become(self, what: str, **expected: int) -> None:
        eventually(
            lambda: types(self._kafka, self._group),
            lambda found: found == Counter(expected),
            what=what,
            timeout_s=90,
        )

    def remain(self, what: str, **expected: int) -> None:
        self.become(what, **expected)
        stays(
            lambda: types(self._kafka, self._group),
            lambda found: found == Counter(expected),
            what=what,
            for_s=6,
        )

    def move(self, text: str) -> dict:
        return eventually(
            lambda: move_of(self.proxy, self._group),
            lambda move: re.fullmatch(text, move.get("text", "")) is not None,
            what=f"its move is {text!r}",
        )

    def tell(self, act: str, *arguments: str) -> str:
        """Give a command that counts; return what is said."""
        done = tell(act, self._group, *arguments, *self._options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tell_in_vain(self, act: str, *arguments: str) -> str:
        refused = tell(act, self._group, *arguments, *self._options)
        assert refused.returncode == 1, (refused.stdout, refused.stderr)
        return refused.stderr


@pytest.mark.kafka
@pytest.mark.scenario("somebody approves, pauses, resumes and rolls back, and a restart changes nothing")
def test_a_move_is_approved_paused_and_rolled_back_and_stays_so_after_a_restart(
    kafka, consumers, folder: Path, group: str, tmp_path: Path
):
    topic, control = kafka.new_topic(partitions=PARTITIONS), str(tmp_path / "control")
    fleet = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 1,
        "replication": 1,
        "expires": True,
    }
    policy = POLICY.format(more="approval: required")
    chromium, pictures = program("chromium", "chromium"), folder / "move"
    with running_proxy(
        kafka.bootstrap, folder / "proxy", policy=policy, fleet=fleet, more={"control": {"socket": control}}
    ) as proxy:
        scene = Scene(kafka, group, proxy, ("--control", control))
        for _ in range(3):
            consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range")
        awaited = scene.move(r"before step 1 of 2 \(1\); waits for an approval of step 1")
        look_at(chromium, proxy, group, pictures.with_name("awaiting"))
        scene.remain("nobody is translated before that", classic=3)

        policy_now = awaited["policy"]
        stale = scene.tell_in_vain("approve", "--step", "1", "--policy", "0123456789abcdef")
        assert f"the policy in force is {policy_now}, not 0123456789abcdef" in stale
        assert "the next step is 1, not 2" in scene.tell_in_vain(
            "approve", "--step", "2", "--policy", policy_now
        )
        scene.tell("approve", "--step", "1", "--policy", policy_now, "--why", "looks good")
        scene.become("one of three is translated", consumer=1, classic=2)
        scene.move(r"step 1 of 2 \(1\), settled; waits for an approval of step 2")
        look_at(chromium, proxy, group, pictures.with_name("settled"))

        scene.tell("pause", "--why", "deployment")
        assert "nothing is to be approved now" in scene.tell_in_vain(
            "approve", "--step", "2", "--policy", policy_now
        )
        paused = scene.move(r"step 1 of 2 \(1\), paused: by uid \d+: deployment")
        assert re.fullmatch(r"pause by uid \d+", paused["said"])
        look_at(chromium, proxy, group, pictures.with_name("paused"))
        scene.remain("a pause moves nobody", consumer=1, classic=2)
        scene.tell("resume")
        scene.tell("approve", "--step", "2", "--policy", policy_now)
        scene.become("all are translated", consumer=3)

        scene.tell("rollback", "--why", "lag grows")
        scene.become("all are classic again", classic=3)
        scene.move(r"step 2 of 2 \(100%\), rolled back: by uid \d+: lag grows")
        look_at(chromium, proxy, group, pictures.with_name("rolled-back"))

        proxy.kill()
        proxy.start()
        scene.move(r"step 2 of 2 \(100%\), rolled back: by uid \d+: lag grows")
        consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range")
        scene.become("a newcomer is classic", classic=4)
        scene.remain("so they stay", classic=4)
        assert "before step 1 of 2" in scene.tell("resume")
        scene.tell("approve", "--step", "1", "--policy", policy_now)
        scene.become("it begins anew", consumer=1, classic=3)
    assert overlaps(consumers.logs) == []


@pytest.mark.kafka
def test_with_several_workers_one_of_them_is_told_and_all_hold_to_it(
    kafka, folder: Path, group: str, tmp_path: Path
):
    control = str(tmp_path / "control")
    fleet = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 1,
        "replication": 1,
        "expires": True,
    }
    with running_proxy(
        kafka.bootstrap,
        folder / "proxy",
        policy=POLICY.format(more=""),
        workers=2,
        fleet=fleet,
        more={"control": {"socket": control}},
    ) as proxy:
        scene = Scene(kafka, group, proxy, ("--control", control))
        assert "rolled back: by uid" in scene.tell("rollback")
        assert "it does not move; now: step 1 of 2 (1), rolled back" in scene.tell_in_vain("pause")
        read = 'epochgate_fleet_records_total{direction="read",kind="group"} 2.0'
        eventually(proxy.metrics, lambda text: read in text, what="both workers have read it", timeout_s=30)
        assert 'epochgate_group_moves{phase="rolled_back"} 1.0' in proxy.metrics()
        assert 'epochgate_control_requests_total{result="done"} 1' in proxy.metrics()


def look_at(chromium: str, proxy: Proxy, group: str, pictures: Path) -> None:
    """Nothing is laid out badly on the page of the group, nor among the others."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  as in support.browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        found = flaws(browser, f"{proxy.admin}/groups/{group}", pictures)
        found += flaws(browser, proxy.admin, pictures.with_name(f"{pictures.name}-all"))
        browser.close()
    assert found == []


class HookServer:
    """A hook that says what the test wants."""

    def __init__(self) -> None:
        self.status, self.answer = 200, {}
        self.heard: list[dict] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append(json.loads(body))
                data = json.dumps(outer.answer).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    def moments(self) -> list[tuple[str, int]]:
        return [(one["moment"], one["step"]) for one in self.heard]

    @contextlib.contextmanager
    def running(self) -> Iterator["HookServer"]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        yield self
        self._server.shutdown()
        thread.join()
        self._server.server_close()


@pytest.mark.kafka
@pytest.mark.scenario("a hook has a veto, and commands come by TLS with a client certificate")
def test_a_hook_has_a_veto_and_commands_come_by_tls(kafka, consumers, folder: Path, group: str):
    topic = kafka.new_topic(partitions=PARTITIONS)
    authority, (port,) = trustme.CA(), free_ports(1)
    server, alice = authority.issue_cert(LOOPBACK), authority.issue_cert("alice.example", common_name="alice")
    mallory = authority.issue_cert("mallory.example", common_name="mallory")
    files = {
        name: folder / name for name in ("ca.pem", "server.pem", "server.key", "alice.pem", "mallory.pem")
    }
    authority.cert_pem.write_to_path(str(files["ca.pem"]))
    server.cert_chain_pems[0].write_to_path(str(files["server.pem"]))
    server.private_key_pem.write_to_path(str(files["server.key"]))
    alice.private_key_and_cert_chain_pem.write_to_path(str(files["alice.pem"]))
    mallory.private_key_and_cert_chain_pem.write_to_path(str(files["mallory.pem"]))
    subject = x509.load_pem_x509_certificate(alice.cert_chain_pems[0].bytes()).subject.rfc4514_string()
    tls = {
        "certificate": str(files["server.pem"]),
        "key": str(files["server.key"]),
        "client_ca": str(files["ca.pem"]),
        "client_auth": "required",
    }

    def options(who: str) -> tuple[str, ...]:
        address = f"https://{LOOPBACK}:{port}"
        return ("--control", address, "--ca", str(files["ca.pem"]), "--cert", str(files[f"{who}.pem"]))

    hook = HookServer()
    hook.status = 503
    more = {
        "control": {"bind": LOOPBACK, "port": port, "tls": tls, "allowed_subjects": [subject]},
        "hook": {"url": hook.url},
    }
    with (
        hook.running(),
        running_proxy(kafka.bootstrap, folder / "proxy", policy=POLICY.format(more=""), more=more) as proxy,
    ):
        scene = Scene(kafka, group, proxy, options("alice"))
        for _ in range(2):
            consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range")
        scene.move(
            r"before step 1 of 2 \(1\); the hook does not let step 1 begin: the hook answers with status 503"
        )
        scene.remain("nobody is translated before the hook agrees", classic=2)
        hook.status, hook.answer = 200, {"proceed": False, "why": "change freeze"}
        scene.move(r"before step 1 of 2 \(1\); the hook does not let step 1 begin: change freeze")
        hook.answer = {"proceed": True}
        scene.become("all are translated, step by step", consumer=2)

        refused = tell("rollback", group, *options("mallory"))
        assert (refused.returncode, "is not one of `control.allowed_subjects`" in refused.stderr) == (2, True)
        scene.tell("rollback")
        scene.become("all are classic again", classic=2)
        assert f"by {subject}" in move_of(proxy, group)["text"]
        eventually(hook.moments, lambda seen: ("rolled_back", 2) in seen, what="the hook is told of that")
        moments = hook.moments()
        assert moments[0] == ("before_step", 1)
        assert moments.index(("settled", 1)) < moments.index(("before_step", 2))
        assert moments.count(("before_step", 2)) == 1, "one call for each transition"
    assert overlaps(consumers.logs) == []
