"""Draws a group as a table: consumers by their own callbacks, and member states as the proxy knows them."""

import time

from rich.box import SIMPLE_HEAD
from rich.table import Table

from proxy.demo.group import Consumer, DemoGroup, Presence
from proxy.demo.proxy import DemoProxy
from proxy.demo.records import ranges
from proxy.groups.group_records import MemberRecord

_NS_PER_S = 1e9
_STYLES = {
    Presence.JOINING: "yellow",
    Presence.READING: "green",
    Presence.STOPPED: "bold red",
    Presence.LEAVING: "yellow",
    Presence.LEFT: "dim",
    Presence.KILLED: "dim",
}


def group_table(group: DemoGroup, proxy: DemoProxy | None) -> Table:
    """Draw a group: its members, and the last one that has gone.

    ``proxy`` is None for the group that connects directly to the brokers.
    """
    way = "direct to the brokers" if proxy is None else "through the proxy"
    title = f"{group.title}: {way}"
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("consumer", no_wrap=True)
    table.add_column("does", no_wrap=True, min_width=len("stopped 9.9 s"))
    if proxy is not None:
        table.add_column("member state", no_wrap=True, min_width=len("CompletingRebalance"))
        table.add_column("generation", justify="right", no_wrap=True)
        table.add_column("epoch", justify="right", no_wrap=True)
    table.add_column("partitions", no_wrap=True, min_width=len("0, 1, 2, 3"))
    gone = [name for name in group.consumers if name not in group.members()]
    for consumer in group.consumers.values():
        if consumer.name in gone[:-1]:
            continue
        between = () if proxy is None else _member(proxy.member(group.group_id, consumer.name))
        table.add_row(
            consumer.name, _presence(consumer), *between, ranges(group.history.held_by(consumer.name))
        )
    return table


def _presence(consumer: Consumer) -> str:
    what = str(consumer.presence)
    if consumer.presence is Presence.STOPPED:
        what += f" {(time.monotonic_ns() - consumer.since_ns) / _NS_PER_S:.1f} s"
    return f"[{_STYLES[consumer.presence]}]{what}[/]"


def _member(member: MemberRecord | None) -> tuple[str, ...]:
    if member is None:
        return "", "", ""
    numbers = (str(number) if number >= 0 else "" for number in (member.generation, member.epoch))
    return member.state, *numbers
