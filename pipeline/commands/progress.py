"""`epochgate pipeline progress`."""

import functools
import signal
from typing import Annotated

import typer

from pipeline.commands.common import (
    FOLDER,
    Conf,
    GoneAfter,
    Kafka,
    KafkaConf,
    KafkaConfFile,
    Master,
    check_source,
    check_topic,
    exit_on_error,
    kafka_settings,
    pairs,
    say_unfinished,
    session,
    source,
)
from pipeline.location import Location
from pipeline.rules.unfinished import GONE_AFTER_S
from proxy.console.output import Output, OutputFormat, print_json


def progress(
    out: Annotated[
        Location,
        typer.Option(
            parser=FOLDER,
            metavar="DIR",
            help="Folder for the tables and checkpoints. A further run continues from there.",
        ),
    ],
    journal: Annotated[
        Location | None,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder with the journals of all replicas."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="Read the journal from this Kafka cluster instead."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the journal, with --from.")] = None,
    window: Annotated[str, typer.Option(metavar="DURATION", help="Width of the time windows.")] = "1 minute",
    lateness: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How late an event may arrive. Later ones are counted and ignored."
        ),
    ] = "1 hour",
    stuck_after_s: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="A member that is not Stable for longer than this is stuck."
        ),
    ] = 120.0,
    follow_s: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Keep running until Ctrl-C, and read what is new at this interval.",
        ),
    ] = None,
    gone_after_s: GoneAfter = GONE_AFTER_S,
    kafka: Kafka = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    master: Master = None,
    conf: Conf = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Report how far each group is, how long its members paused, and which members are stuck; follows the journal."""
    check_source(journal, bootstrap, topic)
    spark_settings = pairs(conf)
    with exit_on_error():  # what keeps Kafka's clients out is said before Spark has started
        settings = kafka_settings(kafka, kafka_conf, kafka_conf_file, for_spark=True)
        if bootstrap is not None and topic is not None:
            check_topic(bootstrap, topic, settings)
    with exit_on_error(), session("progress", master, spark_settings) as spark:
        from pipeline.journal import unfinished  # noqa: PLC0415
        from pipeline.progress import job  # noqa: PLC0415 - the session says what is missing
        from pipeline.progress.streams import Options  # noqa: PLC0415

        lines = source(
            spark,
            journal,
            bootstrap,
            topic,
            lambda folder: job.lines_of_files(spark, folder),
            lambda at, name: job.lines_of_topic(spark, at, name, settings),
        )
        if follow_s is not None:
            # What stops a service ends it as Ctrl-C does.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        options = Options(window, lateness, stuck_after_s)
        hidden = None if journal is None else functools.partial(unfinished.find, spark, journal, gone_after_s)
        summary = job.run(spark, lines, out, options, every_s=follow_s, hidden=hidden)
    if output is OutputFormat.JSON:
        print_json(summary._asdict())
        return
    typer.echo(f"{summary.groups} groups, {summary.pauses} pauses, {summary.stuck} members stuck")
    if summary.other_groups:
        listed = ", ".join(f"{count} {protocol}" for protocol, count in sorted(summary.other_groups.items()))
        typer.echo(f"{sum(summary.other_groups.values())} groups of other protocols: {listed}")
    say_unfinished(summary.unfinished, summary.unread)
    if summary.late:
        typer.echo(f"{summary.late} events came later than {lateness} and were left out")
