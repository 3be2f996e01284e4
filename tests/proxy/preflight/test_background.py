"""The running proxy's own preflights: when they are made, and what becomes of what they find."""

import sys
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pytest
import structlog
import trio

from proxy.admin.preflight_report import Report
from proxy.admin.preflight_view import PreflightBoard, PreflightState
from proxy.config.loader import ConfigError
from proxy.config.reporting import PreflightSection
from proxy.config.schema import Admin, Limits
from proxy.metrics.registry import Metrics
from proxy.preflight import background
from proxy.preflight.background import BackgroundPreflight, NoReport
from proxy.preflight.checks.table import CHECKS
from proxy.preflight.facts import Facts
from proxy.preflight.judge import check_preflight, judge
from proxy.preflight.order import Order
from tests.proxy.fakes.bytes_of_a_child import NO_MESSAGES
from tests.proxy.preflight.facts import UNKNOWN, classic, config, facts
from translation.policy.policy import Mode, Policy

HOUR_S = 3600.0
OTHER_POLICY = Policy(default=Mode.OBSERVE)


@dataclass
class Ports:
    admin: int = 9080


@dataclass
class Process:
    """What owns the admin port, without serving anybody."""

    metrics: Metrics = field(default_factory=Metrics)
    preflight: PreflightBoard = field(default_factory=PreflightBoard)
    ports: Ports = field(default_factory=Ports)


class Preflights:
    """Preflights whose answers the test gives; ``orders`` has when each began, and what it was to do."""

    def __init__(self, known: Facts | str, section: PreflightSection | None = None) -> None:
        self.known = known
        self.takes_s = 2.0
        self.orders: list[tuple[float, Order]] = []
        self.process = Process()
        self.running = BackgroundPreflight(
            self.process,
            config(preflight=section or PreflightSection()),
            Policy(default=Mode.TRANSLATE),
            self._make,
            jitter=lambda: 1.0,
        )

    async def _make(self, order: Order) -> Report:
        self.orders.append((trio.current_time(), order))
        await trio.sleep(self.takes_s)
        if isinstance(self.known, str):
            raise NoReport(self.known)
        return judge(self.known)

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.orders]

    @property
    def view(self):
        return self.process.preflight.view

    def checks(self, status: str) -> float | None:
        return self.process.metrics.registry.get_sample_value(
            "epochgate_preflight_checks", {"status": status}
        )

    def runs(self, result: str) -> float | None:
        return self.process.metrics.registry.get_sample_value(
            "epochgate_preflight_runs_total", {"result": result}
        )


async def test_the_first_is_made_after_clients_are_served_and_then_one_an_hour(autojump_clock, nursery):
    preflights = Preflights(facts())
    nursery.start_soon(preflights.running.run)
    await trio.sleep(100)
    assert preflights.orders == []
    assert preflights.view.state is PreflightState.WAITING
    preflights.running.started()
    await trio.sleep(2.5 * HOUR_S)
    assert preflights.times == [105, 105 + 2 + 30 + HOUR_S, 105 + 2 * (2 + 30 + HOUR_S)]


async def test_a_finding_does_not_stay_for_long_when_it_is_no_longer_true(autojump_clock, nursery):
    preflights = Preflights(facts(groups=(classic(assignor="stream"),)))
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(60)
    assert preflights.checks("found") == 1
    preflights.known = facts()
    await trio.sleep(60)
    assert preflights.checks("found") == 0
    assert len(preflights.times) == 2


async def test_a_finding_that_stays_is_checked_less_and_less_often(autojump_clock, nursery):
    preflights = Preflights(facts(groups=(classic(assignor="stream"),)))
    preflights.takes_s = 0
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(5 * HOUR_S)
    waits = [later - first - 30 for first, later in pairwise(preflights.times)]
    assert waits[:6] == [60, 120, 240, 480, 960, 1920]
    assert set(waits[6:]) == {HOUR_S}


async def test_what_it_finds_is_shown_and_counted(autojump_clock, nursery):
    preflights = Preflights(facts(groups=(classic(assignor="stream"),), acls=UNKNOWN))
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(6)
    assert preflights.view.running
    await trio.sleep(60)
    view = preflights.view
    assert view.state is PreflightState.DONE
    assert not view.running
    assert view.took_s == 2
    assert view.report == judge(preflights.known)
    assert preflights.checks("found") == 1
    assert preflights.checks("unknown") == 5  # those of ACLs
    assert preflights.checks("passed") == len(CHECKS) - 6
    assert preflights.runs("done") == 1


async def test_a_new_policy_is_judged_soon_but_not_again_and_again(autojump_clock, nursery):
    preflights = Preflights(facts())
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(100)
    for _ in range(50):
        preflights.running.set_policy(OTHER_POLICY)
        await trio.sleep(1)
    await trio.sleep(HOUR_S / 2)
    soon, after_the_gap = 5, 2 + 30 + 5
    assert preflights.times == [
        soon,
        100 + soon,
        100 + soon + after_the_gap,  # changes came while the one before ran
        100 + soon + 2 * after_the_gap,  # and once more, until 150
    ]
    assert [order.policy.default for _, order in preflights.orders] == [Mode.TRANSLATE] + 3 * [Mode.OBSERVE]


async def test_another_configuration_is_judged_by_soon(autojump_clock, nursery):
    preflights = Preflights(facts())
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(100)
    (_, order), limits = preflights.orders[0], Limits(max_connections_per_address=7)
    preflights.running.set_config(msgspec.structs.replace(order.config, limits=limits))
    await trio.sleep(60)
    assert [order.config.limits for _, order in preflights.orders] == [Limits(), limits]


async def test_one_that_comes_to_no_end_is_said_and_nothing_counts_as_passed_then(autojump_clock, nursery):
    preflights = Preflights(facts())
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(60)
    known = preflights.view.report
    preflights.known = "out of memory"
    with structlog.testing.capture_logs() as lines:
        await trio.sleep(HOUR_S)
    view = preflights.view
    assert (view.state, view.failure, view.report) == (PreflightState.FAILED, "out of memory", known)
    assert not view.running
    assert preflights.checks("passed") == 0
    assert preflights.checks("unknown") == len(CHECKS)
    assert preflights.runs("failed") == 1
    assert [one["reason"] for one in lines] == ["out of memory"]
    preflights.known = facts()
    await trio.sleep(HOUR_S + 60)
    assert preflights.view.state is PreflightState.DONE
    assert preflights.view.failure is None


async def test_a_bug_ends_neither_the_proxy_nor_the_next_preflights(autojump_clock, nursery):
    preflights = Preflights(facts())
    preflights.known = 1 / 1j  # type: ignore[assignment]  # nothing that can be judged
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(60)
    assert preflights.view.state is PreflightState.FAILED
    assert "unexpected error" in preflights.view.failure
    assert not preflights.view.running
    errors = preflights.process.metrics.registry.get_sample_value(
        "epochgate_internal_errors_total", {"where": "upkeep"}
    )
    assert errors == 1
    preflights.known = facts()
    await trio.sleep(HOUR_S)
    assert preflights.view.state is PreflightState.DONE


async def test_what_is_found_is_logged_once_as_long_as_it_stays(autojump_clock, nursery):
    groups = tuple(classic(f"g{number}", assignor="stream") for number in range(9))
    preflights = Preflights(facts(groups=groups, acls=UNKNOWN))
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    with structlog.testing.capture_logs() as lines:
        await trio.sleep(60)
    (found,) = [one for one in lines if one["event"] == "preflight: found" and one["check"] == "translatable"]
    assert found["log_level"] == "warning"
    assert found["groups"] == 9
    assert found["such_as"] == ["g0", "g1", "g2", "g3", "g4"]
    assert "leave it classic" in found["do"]
    (unknown,) = [one for one in lines if one["event"] == "preflight: unknown"]
    assert unknown["log_level"] == "info"
    (done,) = [one for one in lines if one["event"] == "preflight done"]
    assert (done["status"], done["unknown"]) == ("found", 1)
    with structlog.testing.capture_logs() as later:
        await trio.sleep(HOUR_S)
    assert {one["event"] for one in later} == {"preflight done"}


async def test_a_log_is_not_filled_by_many_findings(autojump_clock, nursery):
    groups = tuple(classic(f"g{number:03}", assignor=f"own-{number}") for number in range(100))
    preflights = Preflights(facts(groups=groups))
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    with structlog.testing.capture_logs() as lines:
        await trio.sleep(60)
    assert len(lines) == 21
    assert lines[-1]["not_logged"] == lines[-1]["found"] - 20


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9080"),
        ("0.0.0.0", "http://127.0.0.1:9080"),  # noqa: S104  what pods listen on
        ("::1", "http://[::1]:9080"),
    ],
)
async def test_it_asks_the_admin_port_of_its_own_proxy(autojump_clock, nursery, bind, url):
    preflights = Preflights(facts())
    preflights.running = BackgroundPreflight(
        preflights.process, config(admin=Admin(bind=bind)), Policy(), preflights._make
    )
    preflights.running.started()
    nursery.start_soon(preflights.running.run)
    await trio.sleep(60)
    assert preflights.orders[0][1].admin == url


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (PreflightSection(accept=("racks", "nothing")), "there is no check 'nothing'"),
        (PreflightSection(kafka_version="4"), "expected a release such as 4.4.0"),
    ],
)
def test_names_that_mean_nothing_are_refused_at_the_start(section, said):
    with pytest.raises(ConfigError, match=said):
        check_preflight(config(preflight=section))
    check_preflight(config(preflight=PreflightSection(accept=("racks", "acls"), kafka_version="4.1.0")))


async def reported(monkeypatch, written: bytes) -> Report:
    child = f"import sys; sys.stdin.buffer.read(); sys.stdout.buffer.write({written!r})"
    monkeypatch.setattr(background, "_COMMAND", (sys.executable, "-c", child))
    order = Order(config=config(), policy=Policy(), admin="http://127.0.0.1:1")
    with trio.fail_after(30):
        return await background.make_in_process(order)


@pytest.mark.parametrize("written", NO_MESSAGES.values(), ids=NO_MESSAGES)
async def test_a_process_that_writes_no_report_is_why_there_is_none(monkeypatch, written):
    with pytest.raises(NoReport, match="wrote no report"):
        await reported(monkeypatch, written)


async def test_a_report_with_something_nested_deeply_is_none(monkeypatch):
    report = msgspec.msgpack.encode(judge(facts()))
    assert 0x80 <= report[0] < 0x8F, "a map with a few fields"
    with pytest.raises(NoReport, match="wrote no report"):
        await reported(
            monkeypatch, bytes([report[0] + 1]) + report[1:] + b"\xa1x" + b"\x91" * 5_000 + b"\x90"
        )
