"""`epochgate pipeline progress`."""

import functools
import signal
from typing import TYPE_CHECKING, Annotated

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
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode

if TYPE_CHECKING:
    from pipeline.progress.job import Summary


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
    derive_every_s: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="With --follow-s: write pauses and the other derived tables at this interval, or less often: it takes "
            "a tenth of the time at most.",
        ),
    ] = 300.0,
    records_at_once: Annotated[
        int, typer.Option(min=1, metavar="N", help="Records of the topic that a batch reads at most.")
    ] = 200_000,
    files_at_once: Annotated[
        int, typer.Option(min=1, metavar="N", help="Files that a batch reads at most.")
    ] = 200,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Tell partitions that two members own at once while the journal is written. The exit code is 3 if "
            "there were any.",
        ),
    ] = False,
    skew_ms: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="MS",
            help="With --audit: how far the clocks of two replicas may differ, in milliseconds.",
        ),
    ] = 100.0,
    audit_delay_s: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="With --audit: how long an event waits for those of other processes. For files, longer than a file is "
            "written.",
        ),
    ] = 15.0,
    audit_every_s: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="With --audit and --follow-s: its own interval.")
    ] = 5.0,
    audit_shards: Annotated[
        int,
        typer.Option(
            min=1, max=1_000, metavar="N", help="With --audit: among how many tasks the groups are divided."
        ),
    ] = 4,
    end_at_violation: Annotated[
        bool, typer.Option("--end-at-violation", help="With --audit and --follow-s: end when there is one.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, metavar="PORT", help="Serve Prometheus metrics there (0: any free port)."
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to serve the metrics on.")
    ] = "127.0.0.1",
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Begin anew: move the checkpoints and tables aside, and read the journal from its beginning.",
        ),
    ] = False,
    kafka: Kafka = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    master: Master = None,
    conf: Conf = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Report how far each group is, how long its members paused, and which members are stuck; follows the journal."""
    check_source(journal, bootstrap, topic)
    if end_at_violation and (not audit or follow_s is None):
        raise typer.BadParameter("--end-at-violation needs --audit and --follow-s")
    spark_settings = pairs(conf)
    with exit_on_error():  # what keeps Kafka's clients out is said before Spark has started
        settings = kafka_settings(kafka, kafka_conf, kafka_conf_file, for_spark=True)
        if bootstrap is not None and topic is not None:
            check_topic(bootstrap, topic, settings)
    with exit_on_error(), session("progress", master, spark_settings) as spark:
        from pipeline.journal import unfinished  # noqa: PLC0415
        from pipeline.progress import job  # noqa: PLC0415 - the session says what is missing
        from pipeline.progress.streams import Audit, Options  # noqa: PLC0415

        lines = source(
            spark,
            journal,
            bootstrap,
            topic,
            lambda folder: job.lines_of_files(spark, folder, files_at_once),
            lambda at, name: job.lines_of_topic(spark, at, name, settings, records_at_once),
        )
        if follow_s is not None:
            # What stops a service ends it as Ctrl-C does.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        options = Options(
            window,
            lateness,
            stuck_after_s,
            derive_every_s,
            Audit(
                int(skew_ms * 1000),
                audit_delay_s,
                audit_shards,
                audit_every_s,
                files_at_once if journal else None,
            )
            if audit
            else None,
        )
        hidden = None if journal is None else functools.partial(unfinished.find, spark, journal, gone_after_s)
        summary = job.run(
            spark,
            lines,
            out,
            options,
            every_s=follow_s,
            hidden=hidden,
            source=f"topic {topic}" if journal is None else journal.uri,
            serving=job.Serving(metrics_host, metrics_port),
            replay=replay,
            end_at_violation=end_at_violation,
        )
    if output is OutputFormat.JSON:
        print_json(summary._asdict())
    else:
        _print(summary, lateness, audited=audit)
    if summary.violations:
        raise typer.Exit(ExitCode.PROBLEM_FOUND)


def _print(summary: "Summary", lateness: str, *, audited: bool) -> None:
    typer.echo(f"{summary.groups} groups, {summary.pauses} pauses, {summary.stuck} members stuck")
    if summary.other_groups:
        listed = ", ".join(f"{count} {protocol}" for protocol, count in sorted(summary.other_groups.items()))
        typer.echo(f"{sum(summary.other_groups.values())} groups of other protocols: {listed}")
    say_unfinished(summary.unfinished, summary.unread)
    if summary.late:
        typer.echo(f"{summary.late} events came later than {lateness} and were left out")
    if audited:
        typer.echo(f"owned twice, as found by this run: {summary.violations}")
