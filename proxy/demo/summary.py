"""The tables and sentences that the demo prints at the end."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxy.demo.measures import StepCost, total
from proxy.demo.verdict import MOVE_NAME, Result, describe_move, moved, problems

_LEGEND = (
    "callbacks: of the members that stayed; consumers stopped: those that read nothing for some time,\n"
    "consumer-seconds: how long; partition-seconds: how long nobody read a partition\n"
    "(with either protocol, a killed consumer's partitions wait for its session timeout)\n"
    "docs/tutorial/demo.md defines all of this exactly."
)


def summary(result: Result) -> Iterator[RenderableType]:
    """Yield everything that is printed after the last step."""
    yield Group(_costs(result), Text(_LEGEND, style="dim"))
    yield _groups(result)
    yield Text("\n".join(_sentences(result)))
    found = problems(result)
    if found:
        yield Text("\n".join(["FAILED", *(f"  {problem}" for problem in found)]), style="bold red")
    else:
        yield Text(
            f"PASSED: both groups read all {result.produced} records, and no partition was ever held by two "
            "consumers at once, as the certificate says too.",
            style="bold green",
        )


def _costs(result: Result) -> Table:
    table = Table(title="What each change cost", title_justify="left")
    table.add_column("step")
    table.add_column("group")
    table.add_column("type at\nthe broker")
    table.add_column("call-\nbacks", justify="right")
    table.add_column("consumers\nstopped", justify="right")
    table.add_column("consumer-\nseconds", justify="right")
    table.add_column("partition-\nseconds", justify="right")
    table.add_column("longest\nseconds", justify="right")
    table.add_column("read\nagain", justify="right")
    for number, step in enumerate(result.steps):
        for group in result.groups:
            first = group is result.groups[0]
            table.add_row(
                step if first else "",
                group.title,
                group.types[number],
                *_cells(group.costs[number]),
                end_section=group is result.groups[-1],
            )
    return table


def _cells(cost: StepCost) -> tuple[str, ...]:
    return (
        str(cost.callbacks),
        f"{cost.stopped} of {cost.bystanders}",
        f"{cost.stopped_s:.2f}",
        f"{cost.unread_s:.2f}",
        f"{cost.longest_s:.2f}",
        str(cost.read_again),
    )


def _groups(result: Result) -> Table:
    table = Table(title="The groups", title_justify="left")
    table.add_column("group")
    table.add_column("records\nproduced", justify="right")
    table.add_column("\nread", justify="right")
    table.add_column("read\nagain", justify="right")
    table.add_column("partitions held\nby two at once", justify="right")
    for group in result.groups:
        table.add_row(
            group.title,
            str(result.produced),
            str(group.distinct),
            str(group.duplicates),
            str(len(group.overlaps)),
        )
    return table


def _sentences(result: Result) -> Iterator[str]:
    if not isinstance(result.certificate, str):
        yield f"epochgate verify: {result.certificate}."
    cost = moved(result)
    if cost is not None:
        yield f"The move: {describe_move(cost)}."
        at = result.steps.index(MOVE_NAME)
        for group in result.groups:
            before, after = total(group.costs[:at]), total(group.costs[at + 1 : -1])
            yield (
                f"{', '.join(result.steps[:at])}, {group.title}: consumers that stayed stopped {before.stopped} times "
                f"before it, for {before.stopped_s:.2f} s in all, and {after.stopped} times after it, for "
                f"{after.stopped_s:.2f} s."
            )
    if result.session_s is not None:
        yield (
            f"group.consumer.session.timeout.ms is {result.session_s:g} s here and 45 s on a stock broker. One "
            "Epochgate ends a silent client after the client's own session timeout; with several, the broker's counts."
        )
