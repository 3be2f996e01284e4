"""A group as a table: its consumers by their own callbacks, its members by what the translation says of them."""

import time

from rich.box import SIMPLE_HEAD
from rich.table import Table

from proxy.demo.group import Consumer, DemoGroup, Presence
from proxy.demo.members import MemberBoard
from proxy.demo.records import ranges

_NS_PER_S = 1e9
_STYLES = {
    Presence.JOINING: "yellow",
    Presence.READING: "green",
    Presence.STOPPED: "bold red",
    Presence.LEAVING: "yellow",
    Presence.LEFT: "dim",
    Presence.KILLED: "dim",
}


def group_table(group: DemoGroup, board: MemberBoard | None) -> Table:
    """Draw a group. ``board`` is None for one that goes straight to the brokers."""
    way = "straight to the brokers" if board is None else "through the proxy"
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
    if board is not None:
        table.add_column("member state", no_wrap=True, min_width=len("CompletingRebalance"))
        table.add_column("generation", justify="right", no_wrap=True)
        table.add_column("epoch", justify="right", no_wrap=True)
    table.add_column("partitions", no_wrap=True, min_width=len("0, 1, 2, 3"))
    for consumer in group.consumers.values():
        between = () if board is None else _member(board, consumer)
        table.add_row(
            consumer.name, _presence(consumer), *between, ranges(group.history.held_by(consumer.name))
        )
    return table


def _presence(consumer: Consumer) -> str:
    what = str(consumer.presence)
    if consumer.presence is Presence.STOPPED:
        what += f" {(time.monotonic_ns() - consumer.since_ns) / _NS_PER_S:.1f} s"
    return f"[{_STYLES[consumer.presence]}]{what}[/]"


def _member(board: MemberBoard, consumer: Consumer) -> tuple[str, str, str]:
    member = board.of(consumer.name)
    if member is None or member.generation < 0:
        return ("" if member is None else member.state, "", "")
    return member.state, str(member.generation), str(member.epoch)
