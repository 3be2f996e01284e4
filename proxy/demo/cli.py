"""The options of ``epochgate demo``. What they start is imported late: it needs confluent-kafka, which is optional."""

from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated

import typer

from proxy.console.exit_codes import ExitCode
from proxy.console.output import NoColor


class Assignor(StrEnum):
    """The classic assignors of confluent-kafka."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"


def demo(
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Run on this Kafka cluster (4.0 or newer, without TLS or SASL)."
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
        Assignor, typer.Option(metavar="NAME", help="partition.assignment.strategy of the consumers.")
    ] = Assignor.ROUNDROBIN,
    partitions: Annotated[
        int, typer.Option(min=4, max=1000, metavar="N", help="Partitions of the topic.")
    ] = 8,
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
    ] = 4,
    _no_color: NoColor = False,
) -> None:
    """Show what a membership change costs a group, with the classic protocol and through Epochgate.

    The demo creates a topic and two groups, and deletes them at the end.
    """
    if kafka is not None and embedded:
        raise typer.BadParameter("--kafka and --embedded exclude each other")
    if find_spec("confluent_kafka") is None:
        typer.echo("error: the demo needs confluent-kafka: pip install 'epochgate[demo]'", err=True)
        raise typer.Exit(ExitCode.FAILED)
    from proxy.demo.command import run_demo  # noqa: PLC0415
    from proxy.demo.plan import Plan  # noqa: PLC0415

    plan = Plan(assignor=assignor, partitions=partitions, records_per_second=rate, work_s=work, pause_s=pause)
    raise typer.Exit(run_demo(kafka, plan, plain=plain))


def add_to(command_line: typer.Typer) -> None:
    """Mount the command."""
    command_line.command()(demo)
