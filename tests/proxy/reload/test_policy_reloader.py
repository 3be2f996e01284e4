"""The policy file changes while the proxy runs."""

import os
import signal
import threading
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from proxy.config.policy_source import LoadedPolicy
from proxy.metrics.registry import Metrics
from proxy.reload.policy_reloader import PolicyReloader
from proxy.runtime.file_watcher import POLL_INTERVAL_S
from tests.proxy.reload.reloading import inline, watch
from translation.policy.policy import Mode, Policy, Rule

TRANSLATE = "rules:\n  - {group: payments, mode: translate}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    policy = tmp_path / "policy.yaml"
    policy.write_text("default: observe\n")
    return policy


async def test_a_changed_file_is_applied(
    file: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    applied: list[Policy] = []
    metrics = Metrics()
    nursery.start_soon(watch, PolicyReloader(file, applied.append, metrics, run_in_thread=inline))
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert applied == [], "a file that did not change is not applied again"
    file.write_text(TRANSLATE)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert [policy.rule_for("payments").mode for policy in applied] == [Mode.TRANSLATE]
    assert metrics.registry.get_sample_value("epochgate_policy_version") == 2


@pytest.mark.parametrize("beginning", ["", "rules:\n- {group: orders, mode: translate}\n"])
async def test_a_file_that_is_being_written_is_not_read_before_it_is_complete(
    file: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, beginning: str
) -> None:
    """What is there of it is a policy too: it would move groups back."""
    applied: list[Policy] = []
    nursery.start_soon(watch, PolicyReloader(file, applied.append, Metrics(), run_in_thread=inline))
    await trio.sleep(POLL_INTERVAL_S / 2)
    file.write_text(beginning)
    await trio.sleep(POLL_INTERVAL_S)
    file.write_text("rules:\n- {group: orders, mode: translate}\n- {group: payments, mode: translate}\n")
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert [policy.rule_for("payments").mode for policy in applied] == [Mode.TRANSLATE]


@pytest.mark.parametrize(
    ("text", "said_of_it"),
    [
        (
            "rules:\n  - {group: payments, mode: transalte}\n",
            "policy.yaml:2:23: rules[0].mode: expected one of `observe`, `translate`, `reject`, got",
        ),
        ("default: 2001-99-99\n", "policy.yaml:1:10: default: not a valid timestamp"),
        ("default: \0\n", "policy.yaml: not valid YAML"),
        ("rules: &a [*a]\n", "policy.yaml:1:12: not valid YAML: the alias *a"),
    ],
)
async def test_a_bad_file_is_refused_and_the_policy_before_it_stays(
    file: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, text: str, said_of_it: str
) -> None:
    applied: list[Policy] = []
    metrics = Metrics()
    nursery.start_soon(watch, PolicyReloader(file, applied.append, metrics, run_in_thread=inline))
    await trio.testing.wait_all_tasks_blocked()
    with structlog.testing.capture_logs() as logs:
        file.write_text(text)
        await trio.sleep(3 * POLL_INTERVAL_S)
    assert applied == []
    assert metrics.registry.get_sample_value("epochgate_policy_is_current") == 0
    assert metrics.registry.get_sample_value("epochgate_policy_reloads_total", {"result": "refused"}) == 1
    (said,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert said_of_it in said["reason"], "the place of the mistake is named"
    file.write_text(TRANSLATE)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert len(applied) == 1
    assert metrics.registry.get_sample_value("epochgate_policy_is_current") == 1


async def test_a_file_that_went_away_is_refused_until_it_is_back(
    file: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    applied: list[Policy] = []
    nursery.start_soon(watch, PolicyReloader(file, applied.append, Metrics(), run_in_thread=inline))
    await trio.testing.wait_all_tasks_blocked()
    file.unlink()
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert applied == []
    file.write_text(TRANSLATE)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert len(applied) == 1


async def test_sighup_reads_the_file_again_at_once(file: Path, nursery: trio.Nursery) -> None:
    applied: list[Policy] = []
    told = trio.Event()

    def apply(policy: Policy) -> None:
        applied.append(policy)
        told.set()

    nursery.start_soon(watch, PolicyReloader(file, apply, Metrics(), run_in_thread=inline))
    await trio.testing.wait_all_tasks_blocked()
    os.kill(os.getpid(), signal.SIGHUP)
    await told.wait()
    assert applied == [Policy(default=Mode.OBSERVE)]


async def test_clients_are_served_while_a_large_policy_is_read(file: Path, nursery: trio.Nursery) -> None:
    """30,000 rules take seconds to be read and compiled."""
    served_meanwhile, applied = threading.Event(), trio.Event()
    policy = Policy(rules=(Rule(pattern=".*b", mode=Mode.TRANSLATE),))

    def load() -> LoadedPolicy:
        assert served_meanwhile.wait(10), "the loop waits for the policy"
        return LoadedPolicy(policy, "")

    reloader = PolicyReloader(file, lambda _: applied.set(), Metrics())
    nursery.start_soon(reloader.run)
    reloader.take(load, "test")
    await trio.lowlevel.checkpoint()
    served_meanwhile.set()
    with trio.fail_after(10):
        await applied.wait()


async def test_of_several_changes_while_a_policy_is_read_the_last_one_counts(
    file: Path, nursery: trio.Nursery
) -> None:
    first, applied, done = threading.Event(), [], trio.Event()

    def load_slowly() -> LoadedPolicy:
        first.wait(10)
        return LoadedPolicy(Policy(default=Mode.REJECT), "")

    def apply(policy: Policy) -> None:
        applied.append(policy.default)
        if policy.default is Mode.TRANSLATE:
            done.set()

    reloader = PolicyReloader(file, apply, Metrics())
    nursery.start_soon(reloader.run)
    reloader.take(load_slowly, "1")
    await trio.testing.wait_all_tasks_blocked()
    reloader.take(lambda: LoadedPolicy(Policy(default=Mode.HOST), ""), "2")
    reloader.take(lambda: LoadedPolicy(Policy(default=Mode.TRANSLATE), ""), "3")
    first.set()
    with trio.fail_after(10):
        await done.wait()
    assert applied == [Mode.REJECT, Mode.TRANSLATE]
