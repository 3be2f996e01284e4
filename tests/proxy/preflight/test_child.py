"""A preflight in a process of its own: a real one, at brokers on loopback, and what bounds it."""

import sys

import msgspec
import pytest
import trio

from proxy.admin.preflight_report import Report, Status, shortened
from proxy.config.fleet import Fleet
from proxy.config.reporting import PreflightSection
from proxy.config.schema import Upstream
from proxy.config.tls import ClientAuth
from proxy.preflight import background
from proxy.preflight.background import NoReport, make_in_process
from proxy.preflight.judge import judge
from proxy.preflight.order import Order
from tests.proxy.admin.door import TOKEN, opened
from tests.proxy.fakes.broker import FakeBroker, a_cluster
from tests.proxy.preflight.facts import classic, config, facts
from translation.policy.policy import Policy

NOBODY = "127.0.0.1:1"


def order(*bootstrap: str, section: PreflightSection | None = None, **more) -> Order:
    upstream = Upstream(bootstrap=bootstrap or (NOBODY,))
    known = config(upstream=upstream, preflight=section or PreflightSection(), **more)
    return Order(config=known, policy=Policy(), admin=f"http://{NOBODY}")


async def test_it_asks_brokers_and_tells_what_it_found():
    async with a_cluster(1, 2) as brokers:
        for one in brokers.values():
            one.refuses_metadata = True  # so that no account is asked for, which takes its time
        report = await make_in_process(order(*(f"{host}:{port}" for host, port in _nodes(brokers))))
    assert report.status is Status.FOUND
    assert {one.check for one in report.findings if not one.unknown} == {"group_version"}
    assert {one.check for one in report.findings if one.unknown} == {"brokers", "groups", "acls", "proxy"}
    assert "passed" not in {one.status for one in report.checks}
    needs = {one.check: one.needs for one in report.checks if one.needs}
    assert needs["bug_full_group"] == "preflight.kafka_version"
    assert needs["ports"] == "a proxy that has not been started"


def _nodes(brokers: dict[int, FakeBroker]) -> list[tuple[str, int]]:
    return [one.nodes[node_id] for node_id, one in brokers.items()]


async def test_it_asks_its_own_proxy_with_what_that_needs(tmp_path):
    async with opened(tmp_path, [TOKEN], tls=True, client_auth=ClientAuth.REQUIRED) as door:
        replicas = PreflightSection(replicas=f"localhost:{door.port}")
        asked = msgspec.structs.replace(order(section=replicas, admin=door.admin), admin=door.url)
        report = await make_in_process(asked)
    assert {one.check for one in report.findings if one.unknown} == {"brokers", "groups", "acls"}


async def test_a_secret_that_is_not_there_is_said():
    fleet = Fleet(
        kafka={"bootstrap.servers": NOBODY}, kafka_environment={"sasl.password": "EPOCHGATE_TEST_NO_SUCH"}
    )
    with pytest.raises(NoReport, match="the variable EPOCHGATE_TEST_NO_SUCH is not set"):
        await make_in_process(order(fleet=fleet))


async def test_a_bug_is_told_in_one_line(monkeypatch):
    broken = (
        "from proxy.preflight import child\n"
        "async def ask(_):\n"
        "    async with child.trio.open_nursery():\n"
        "        raise KeyError('lost')\n"
        "child.ask = ask\n"
        "child.main()\n"
    )
    monkeypatch.setattr(background, "_COMMAND", (sys.executable, "-c", broken))
    with pytest.raises(NoReport, match=r"^unexpected error: KeyError\('lost'\)$"):
        await make_in_process(order())


async def test_one_that_takes_too_long_ends_by_itself(monkeypatch):
    monkeypatch.setattr(background, "_MARGIN_S", 1000.0)  # nobody ends it
    async with a_cluster(1) as brokers:
        brokers[1].holds_back = trio.Event()
        asked = order(
            *(f"{host}:{port}" for host, port in _nodes(brokers)), section=PreflightSection(timeout_s=1)
        )
        with pytest.raises(NoReport, match="it took longer than 1 s"):  # by an alarm that it has set itself
            await make_in_process(asked)


async def test_one_that_does_not_end_is_killed(monkeypatch, autojump_clock):
    monkeypatch.setattr(background, "_COMMAND", ("sleep", "1000"))
    with pytest.raises(NoReport, match="longer than 3 s"):
        await make_in_process(order(section=PreflightSection(timeout_s=3)))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program",), "could not be started: No such file or directory"),
        (("sh", "-c", "echo what was wrong >&2; exit 1"), "^what was wrong$"),
        (("sh", "-c", "exit 7"), "exit code 7"),
        (("sh", "-c", "kill -9 $$"), "exit code -9"),
        (("sh", "-c", "cat >/dev/null; echo no report"), "wrote no report"),
        (("sh", "-c", "head -c 20000000 /dev/zero"), "wrote more than"),
        (("sh", "-c", "head -c 1000000 /dev/zero >&2; exit 1"), "^\0{1000}$"),
    ],
)
async def test_whatever_becomes_of_it_there_is_a_reason(monkeypatch, command, said):
    monkeypatch.setattr(background, "_COMMAND", command)
    with pytest.raises(NoReport, match=said):
        await make_in_process(order())


def test_a_report_is_shortened_to_its_bounds_and_says_so():
    groups = tuple(classic(f"g{number:03}", assignor=f"own-{number % 7}") for number in range(70))
    whole = judge(facts(groups=groups))
    small = shortened(whole, findings=5, groups=12, characters=40)
    assert len(small.findings) == 5
    assert small.findings_left_out == len(whole.findings) - 5
    assert sum(len(one.groups) for one in small.findings) == 12
    for before, after in zip(whole.findings, small.findings, strict=False):
        assert len(after.groups) + after.groups_left_out == len(before.groups)
        assert len(after.what) <= 40
        assert len(after.do) <= 40
    assert small.checks == whole.checks
    assert shortened(whole, findings=1000, groups=1000, characters=1000) == whole
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(small), type=Report) == small
