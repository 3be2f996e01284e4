"""The tables and sentences that the demo prints at the end."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxy.demo.measures import StepCost
from proxy.demo.verdict import GroupResult, Result, problems

_LEGEND = (
    "consumers stopped: members that stayed but read nothing for some time; consumer-seconds: how long\n"
    "partitions interrupted: nobody read them for some time; partition-seconds: how long\n"
    "(with either protocol, a killed consumer's partitions wait for its session timeout)\n"
    "docs/tutorial/demo.md defines all of this exactly."
)


def summary(result: Result) -> Iterator[RenderableType]:
    """Yield everything that is printed after the last step."""
    yield Group(_costs(result), Text(_LEGEND, style="dim"))
    yield _groups(result)
    yield Text("\n".join(_sentence(group) for group in result.groups))
    found = problems(result)
    if found:
        yield Text("\n".join(["FAILED", *(f"  {problem}" for problem in found)]), style="bold red")
    else:
        yield Text(
            f"PASSED: both groups read all {result.produced} records, and no partition was ever held by two "
            "consumers at once.",
            style="bold green",
        )


def _costs(result: Result) -> Table:
    table = Table(title="What each change cost", title_justify="left")
    table.add_column("step")
    table.add_column("group")
    table.add_column("consumers\nstopped", justify="right")
    table.add_column("consumer-\nseconds", justify="right")
    table.add_column("partitions\ninterrupted", justify="right")
    table.add_column("partition-\nseconds", justify="right")
    for number, step in enumerate(result.steps):
        for group in result.groups:
            first = group is result.groups[0]
            table.add_row(
                step if first else "",
                group.title,
                *_cells(group.costs[number]),
                end_section=group is result.groups[-1],
            )
    for group in result.groups:
        table.add_row("all" if group is result.groups[0] else "", group.title, *_cells(_sum(group)))
    return table


def _cells(cost: StepCost) -> tuple[str, str, str, str]:
    return (
        f"{cost.stopped} of {cost.bystanders}",
        f"{cost.stopped_s:.2f}",
        f"{cost.interrupted} of {cost.partitions}",
        f"{cost.unread_s:.2f}",
    )


def _groups(result: Result) -> Table:
    table = Table(title="The groups", title_justify="left")
    table.add_column("group")
    table.add_column("type at\nthe broker")
    table.add_column("\nmembers", justify="right")
    table.add_column("records\nproduced", justify="right")
    table.add_column("\nread", justify="right")
    table.add_column("read\nagain", justify="right")
    table.add_column("partitions held\nby two at once", justify="right")
    for group in result.groups:
        table.add_row(
            group.title,
            group.broker.type,
            str(group.broker.members),
            str(result.produced),
            str(group.distinct),
            str(group.duplicates),
            str(len(group.overlaps)),
        )
    return table


def _sentence(group: GroupResult) -> str:
    cost = _sum(group)
    return (
        f"{group.title}: consumers that stayed in the group stopped {cost.stopped} times, "
        f"for {cost.stopped_s:.2f} s in all."
    )


def _sum(group: GroupResult) -> StepCost:
    return StepCost(
        bystanders=sum(cost.bystanders for cost in group.costs),
        stopped=sum(cost.stopped for cost in group.costs),
        stopped_s=sum(cost.stopped_s for cost in group.costs),
        partitions=sum(cost.partitions for cost in group.costs),
        interrupted=sum(cost.interrupted for cost in group.costs),
        unread_s=sum(cost.unread_s for cost in group.costs),
    )
