"""The figures of benchmarks/fleet_members.py, and the tables that show them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Process:
    """One process of the proxy, with members and without."""

    members: int
    empty_mib: float
    mib: float


@dataclass(frozen=True)
class Records:
    """Records of members that all replicas wrote, and that one of them read, while something went on."""

    seconds: float
    written: dict[str, int]
    read: int

    @property
    def written_per_s(self) -> float:
        return sum(self.written.values()) / self.seconds

    @property
    def read_per_s(self) -> float:
        return self.read / self.seconds


@dataclass(frozen=True)
class Window:
    """What was measured while the members only heartbeat. Times in milliseconds."""

    heartbeats_per_s: float
    p50_ms: float
    p99_ms: float
    direct_p50_ms: float
    direct_p99_ms: float
    rejoins: int
    cpu_us_a_heartbeat: float
    """Of all processes of the proxy together."""
    cores: dict[str, float]
    other_cores: float
    load_average: float


@dataclass
class Way:
    """All figures of one way."""

    joined_s: float
    rejoins_forming: int
    window: Window
    processes: list[Process]
    joining: Records
    settled: Records

    @property
    def logged(self) -> bool:
        """Whether there is a member log."""
        return self.joining.read > 0


@dataclass(frozen=True)
class Restart:
    """One replica ended with SIGTERM and started again."""

    moved: int
    rejoins: int
    tries_again: dict[str, int]
    drained_s: float
    """From SIGTERM to the end of the process."""
    heard_s: float
    """From SIGTERM until the last of its members was answered at another replica."""
    p99_ms: float
    """Of all members' Heartbeats meanwhile."""
    cpu_ms_a_takeover: float
    """Processor time of the others beyond what Heartbeats take, for each member that came."""
    records: Records
    replay_s: float
    """epochgate_fleet_replay_seconds of the process that was started."""
    replayed: int
    """Records that it had read by then."""
    ready_s: float
    """From its start until it was ready."""
    view_mib: float
    """By how much more memory it has then than one that started with an empty log."""


@dataclass
class Report:
    members: int
    group_size: int
    ways: dict[str, Way] = field(default_factory=dict)
    restart: Restart | None = None


def compared(ways: Mapping[str, Way]) -> str:
    """Format the figures of both ways: a row for each measure."""
    both = list(ways.values())
    windows = [way.window for way in both]
    rows: list[tuple[str, list[str], str]] = [
        _row(f"{name}, {q}", [getattr(window, f"{field}{q}_ms") for window in windows], "{:.1f} ms")
        for name, field in (("Heartbeat", ""), ("native heartbeat straight at Kafka meanwhile", "direct_"))
        for q in ("p50", "p99")
    ]
    rows += [
        _row("Heartbeats a second", [one.heartbeats_per_s for one in windows], "{:.0f}"),
        _row("processor time for each", [one.cpu_us_a_heartbeat for one in windows], "{:.0f} µs"),
        ("members that rejoined meanwhile", [str(one.rejoins) for one in windows], ""),
        (
            "cores: proxy, Kafka, members, busy with other things; load average",
            [
                ", ".join(f"{one.cores[name]:.2f}" for name in ("proxy", "Kafka", "members"))
                + f", {one.other_cores:.2f}; {one.load_average:.1f}"
                for one in windows
            ],
            "",
        ),
        (
            "memory of each process",
            [", ".join(f"{one.mib:.0f}" for one in way.processes) + " MiB" for way in both],
            "",
        ),
        (
            "of it before the first member",
            [", ".join(f"{one.empty_mib:.0f}" for one in way.processes) + " MiB" for way in both],
            "",
        ),
        _row(
            "growth of all processes, for each member",
            [sum(one.mib - one.empty_mib for one in way.processes) * 1024 / _served(way) for way in both],
            "{:.1f} KiB",
        ),
        _row("all have joined and settled after", [way.joined_s for way in both], "{:.0f} s"),
        ("rejoins until then", [str(way.rejoins_forming) for way in both], ""),
        *[
            (
                f"records of the log {what}",
                [
                    f"{records.written_per_s:.1f} written, {records.read_per_s:.1f} read a second by each"
                    f" ({sum(records.written.values())} in {records.seconds:.0f} s)"
                    if way.logged
                    else "none"
                    for way, records in zip(both, phases, strict=True)
                ],
                "",
            )
            for what, phases in (
                ("while they join", [way.joining for way in both]),
                ("while they heartbeat", [way.settled for way in both]),
            )
        ],
    ]
    lines = [f"| | {' | '.join(ways)} | ratio |", "| --- |" + " --- |" * (len(ways) + 1)]
    lines += [f"| {name} | {' | '.join(values)} | {ratio} |" for name, values, ratio in rows]
    return "\n".join(lines)


def restarted(one: Restart) -> str:
    """Format what a restart cost."""
    again = ", ".join(f"{n} {code}" for code, n in one.tries_again.items()) or "none"
    rows = {
        "members of the replica that was ended": str(one.moved),
        "of these, and of all others, rejoined": str(one.rejoins),
        "answers after which a client tries again": again,
        "its process ended after SIGTERM in": f"{one.drained_s:.1f} s",
        "all its members were answered at other replicas within": f"{one.heard_s:.1f} s",
        "Heartbeats of all members meanwhile, p99": f"{one.p99_ms:.0f} ms",
        "processor time of the others for each member that came": f"{one.cpu_ms_a_takeover:.2f} ms",
        "records written meanwhile": f"{sum(one.records.written.values())} in {one.records.seconds:.1f} s",
        "started again, it read the log in": f"{one.replay_s:.2f} s ({one.replayed} records)",
        "and was ready after": f"{one.ready_s:.1f} s",
        "its memory beyond that of the first start, with an empty log": f"{one.view_mib:.1f} MiB",
    }
    lines = ["| one replica restarted | |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())])


def _row(name: str, values: list[float], form: str) -> tuple[str, list[str], str]:
    ratio = f"{values[1] / values[0]:.2f}" if len(values) == 2 and values[0] else ""
    return name, [form.format(value) for value in values], ratio


def _served(way: Way) -> int:
    return sum(one.members for one in way.processes)
