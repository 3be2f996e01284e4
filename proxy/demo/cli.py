"""The options of ``epochgate demo``. What they start is imported late: it needs confluent-kafka, which is optional."""

from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from proxy.runtime.console_output import NoColor
from proxy.runtime.exit_codes import ExitCode


class StoryName(StrEnum):
    """What the demo shows."""

    REBALANCE = "rebalance"
    SHARE = "share"


class Assignor(StrEnum):
    """The classic assignors of confluent-kafka."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"


_FEWEST_PARTITIONS = 4
"""One for each consumer of a group at its largest."""


def demo(
    story: Annotated[
        StoryName,
        typer.Option(
            metavar="NAME",
            help="What to show: rebalance (a live move, and what membership changes cost), or share (a share "
            "group, KIP-932).",
        ),
    ] = StoryName.REBALANCE,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Run on this Kafka cluster (4.0 or newer, share: 4.2; without TLS or SASL).",
        ),
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Run on the embedded coordinator. This is the default.")
    ] = False,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Print lines instead of a live screen. This is the default without a terminal."
        ),
    ] = False,
    assignor: Annotated[
        Assignor | None,
        typer.Option(
            metavar="NAME",
            help="partition.assignment.strategy of the consumers, roundrobin by default; not for share.",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, metavar="N", help="Partitions of the topic, 8 by default (at least 4); share: 2."
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=1, max=5000, metavar="N", help="Records produced per second.")
    ] = 100,
    work: Annotated[
        float,
        typer.Option(
            min=0, max=10, metavar="SECONDS", help="How long a consumer works on a batch, on average."
        ),
    ] = 1,
    pause: Annotated[
        float,
        typer.Option(min=0, max=600, metavar="SECONDS", help="How long each state stays on the screen."),
    ] = 2,
    _no_color: NoColor = False,
) -> None:
    """Move a group at work, and show what changes cost it and a group that stays classic; or show a share group.

    The demo creates a topic and one or two groups, and deletes them at the end.
    """
    if kafka is not None and embedded:
        raise typer.BadParameter("--kafka and --embedded exclude each other")
    if find_spec("confluent_kafka") is None:
        typer.echo(
            "error: the demo needs confluent-kafka: pip install '.[demo]' in a checkout of Epochgate",
            err=True,
        )
        raise typer.Exit(ExitCode.FAILED)
    if story is StoryName.SHARE:
        if assignor is not None:
            raise typer.BadParameter("share groups have no --assignor")
        if not hasattr(import_module("confluent_kafka"), "ShareConsumer"):
            typer.echo("error: this story needs confluent-kafka 2.16 or newer", err=True)
            raise typer.Exit(ExitCode.FAILED)
    elif partitions is not None and partitions < _FEWEST_PARTITIONS:
        raise typer.BadParameter(f"--partitions must be {_FEWEST_PARTITIONS} at least")
    from proxy.demo.command import run_demo  # noqa: PLC0415
    from proxy.demo.plan import Plan  # noqa: PLC0415
    from proxy.demo.stories import REBALANCE, SHARE  # noqa: PLC0415
    from proxy.demo.story import Story  # noqa: PLC0415

    shown: Story[Any] = SHARE if story is StoryName.SHARE else REBALANCE
    plan = Plan(
        assignor=assignor or Assignor.ROUNDROBIN,
        partitions=partitions or shown.partitions,
        records_per_second=rate,
        work_s=work,
        pause_s=pause,
    )
    raise typer.Exit(run_demo(shown, kafka, plan, plain=plain))
