"""The result of the story: the facts, whether they pass, and how they are printed."""

from collections.abc import Iterator

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from proxy.demo.records import ranges
from proxy.demo.share.group import DemoShareGroup, Presence
from proxy.demo.share.plan import LOCK_S

_STYLES = {
    Presence.JOINING: "yellow",
    Presence.WORKING: "green",
    Presence.HOLDING: "bold red",
    Presence.LEFT: "dim",
    Presence.KILLED: "dim",
}


class ShareResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the records. Counts are of records, unless they say otherwise."""

    produced: int
    accepted: int
    accepted_twice: int
    missing: tuple[int, ...]
    """Neither accepted nor given up."""
    came_again: int
    """Released by a consumer, and accepted later."""
    held: int
    """Of the consumer that was killed, at its end."""
    taken_over: int
    """Of those, accepted by others."""
    taken_over_after_ms: float
    poison: int
    """The number of the record that nobody could process."""
    poison_deliveries: int
    delivery_limit: int
    left: int | None
    """What the group has not finished, by the broker's own account."""


def problems(result: ShareResult) -> list[str]:
    """Return what is wrong, in words. An empty list means that the demo passed."""
    found = []
    if not result.produced:
        found.append("no record was produced, so the demo shows nothing")
    if result.missing:
        found.append(f"{len(result.missing)} records were never accepted: {ranges(result.missing)}")
    if result.accepted_twice:
        found.append(f"{result.accepted_twice} records were accepted twice")
    if not result.came_again:
        found.append("no released record was accepted later")
    if not result.held or result.taken_over != result.held:
        found.append(
            f"of the {result.held} records of the killed consumer, others accepted {result.taken_over}"
        )
    if result.taken_over_after_ms >= LOCK_S * 1000:
        found.append("the records of the killed consumer waited until their locks had ended")
    if result.poison_deliveries != result.delivery_limit:
        found.append(
            f"record {result.poison} was delivered {result.poison_deliveries} times, "
            f"not {result.delivery_limit} times"
        )
    if result.left is None:
        found.append("the broker does not say whether records are left")
    elif result.left:
        found.append(f"the broker says that {result.left} records are left")
    return found


def summary(result: ShareResult) -> Iterator[RenderableType]:
    """Yield everything that is printed after the last step."""
    yield _facts(result)
    found = problems(result)
    if found:
        yield Text("\n".join(["FAILED", *(f"  {problem}" for problem in found)]), style="bold red")
    else:
        yield Text(
            f"PASSED: of {result.produced} records the group has processed {result.accepted}, each exactly once, and "
            "given up the one that nobody could process. Nothing is left.",
            style="bold green",
        )


def consumers_table(group: DemoShareGroup) -> Table:
    """Draw the consumers of the group."""
    table = Table(
        title="The share group: through the proxy",
        title_style="bold",
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("consumer", no_wrap=True)
    table.add_column("does", no_wrap=True, min_width=len(Presence.JOINING))
    table.add_column("accepted", justify="right")
    table.add_column("released", justify="right")
    for consumer in group.consumers.values():
        presence = f"[{_STYLES[consumer.presence]}]{consumer.presence}[/]"
        table.add_row(consumer.name, presence, str(consumer.accepted), str(consumer.released))
    return table


def _facts(result: ShareResult) -> Table:
    table = Table(title="What came of the records", title_justify="left")
    table.add_column("records", justify="right")
    table.add_column("")
    rows = (
        (result.produced, "were produced"),
        (result.accepted, "were accepted by a consumer"),
        (result.came_again, "of these were released at first, and came again"),
        (
            result.taken_over,
            (
                f"of these were with the consumer that was killed, and with others {result.taken_over_after_ms:.0f} ms "
                f"after its end: their locks would have lasted {LOCK_S} s"
            ),
        ),
        (1, f"could not be processed, and was given up after {result.poison_deliveries} deliveries"),
        ("?" if result.left is None else result.left, "are left, says the broker"),
    )
    for count, what in rows:
        table.add_row(str(count), what)
    return table
