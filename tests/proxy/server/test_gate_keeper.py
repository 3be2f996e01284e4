"""What the shell adds to the signals of a move with gates: time, connections, brokers, and the lag."""

from collections.abc import Collection, Mapping

import pytest
import trio
import trio.testing

from proxy.groups.lag.group_lags import lag_of
from proxy.groups.lag.readings import GroupLag, Partition, PartitionLag, Reading, Unknown, Why
from proxy.metrics.registry import Metrics
from proxy.server.gate_keeper import GateKeeper, LagSource, no_lag
from translation.actions import Event, EventKind, MemberProtocol
from translation.member_log.signals import Gate, Report
from translation.policy.gates import AbortIf

EVENT = Event(
    kind=EventKind.JOINED,
    group_id="g",
    member_id="m",
    protocol=MemberProtocol.CLASSIC,
    state="Stable",
    owned=(),
)


class Kept:
    """A keeper of one group, and what it has reported."""

    def __init__(self, abort_if: AbortIf, lag_source: LagSource = no_lag) -> None:
        self.reports: list[Report] = []
        self.keeper = GateKeeper(
            lambda: {"g": abort_if}, lambda: frozenset({"g"}), Metrics(), lag_source=lag_source
        )

    async def windows(self, number: int) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.keeper.run, lambda reports: self.reports.extend(reports.values()))
            await trio.testing.wait_all_tasks_blocked()
            self.keeper.record(EVENT)
            await trio.sleep(number * 10 + 1)
            nursery.cancel_scope.cancel()


async def test_a_report_comes_every_ten_seconds(autojump_clock: trio.testing.MockClock) -> None:
    kept = Kept(AbortIf())
    await kept.windows(3)
    assert [len(report.windows) for report in kept.reports] == [1, 2, 3]
    assert kept.reports[0].windows[0].members == 1
    assert 9_900 < kept.reports[2].windows[0].ms < 10_100


async def test_a_broker_that_is_away_marks_its_windows(autojump_clock: trio.testing.MockClock) -> None:
    kept = Kept(AbortIf())
    kept.keeper.unreachable(2)
    await kept.windows(1)
    assert kept.reports[0].windows[0].fault == "broker 2 can't be reached"
    kept.keeper.reachable(2)
    await kept.windows(2)
    assert kept.reports[-1].windows[0].fault == ""


async def test_a_lag_that_is_not_known_twice_running_has_failed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lags: list[int | str] = ["no answer", 7, "no answer", "no answer", "no answer"]

    async def source(groups: Collection[str]) -> Mapping[str, int | str]:
        return dict.fromkeys(groups, lags.pop(0))

    kept = Kept(AbortIf(lag=1), source)
    await kept.windows(4)
    assert [report.windows[0].lag for report in kept.reports] == [None, 7, None, None]
    assert [report.failed for report in kept.reports] == [(), (), (), (f"{Gate.LAG}: no answer",)]


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_source_that_hangs_or_fails_ends_nothing(
    autojump_clock: trio.testing.MockClock, *, hangs: bool
) -> None:
    async def source(groups: Collection[str]) -> Mapping[str, int | str]:
        if hangs:
            await trio.sleep_forever()
        raise ZeroDivisionError

    kept = Kept(AbortIf(lag=1), source)
    await kept.windows(3)
    assert len(kept.reports) == 3
    assert kept.reports[-1].failed != ()


ORDERS = Partition("orders", 0)


def reading(
    *partitions: tuple[int | Unknown | None, int | Unknown], stale: Unknown | None = None
) -> GroupLag:
    found = {
        Partition("orders", number): PartitionLag(committed=committed, end=end)
        for number, (committed, end) in enumerate(partitions)
    }
    return GroupLag(group_id="g", read_at=0.0, partitions=found, stale=stale)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (reading((3, 10), (None, 5)), 7),
        (reading(), "no commit in a topic that the account may describe"),
        (reading((3, 10), stale=Unknown(Why.NO_ANSWER)), "no answer"),
        (reading((3, 10), (4, Unknown(Why.NO_LEADER, "2"))), "orders-1: no leader: 2"),
        (Unknown(Why.NO_ACCOUNT, "none"), "no account: none"),
    ],
)
def test_a_lag_counts_only_if_all_of_it_is_known(read: Reading, expected: int | str) -> None:
    assert lag_of(read) == expected
