"""`epochgate verify`."""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.common import (
    LOCAL_FOLDER,
    GoneAfter,
    Kafka,
    KafkaConf,
    KafkaConfFile,
    check_source,
    exit_on_error,
    kafka_settings,
)
from pipeline.rules.certificate import Report, Verdict
from pipeline.rules.unfinished import GONE_AFTER_S, Unfinished
from pipeline.verify import files, job, printed, topic
from pipeline.verify.job import Options
from pipeline.verify.spool import Spool
from pipeline.watch import console
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode

_DURATION = re.compile(r"(?P<number>[0-9]+)(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _microseconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"expected a duration such as 90s, 30m, 12h or 7d, got {text!r}")
    return int(found["number"]) * _SECONDS[found["unit"]] * 1_000_000


def verify(
    journal: Annotated[
        Path | None,
        typer.Option(parser=LOCAL_FOLDER, metavar="DIR", help="Folder with the journals of all replicas."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="Read the journal from this Kafka cluster instead."),
    ] = None,
    topic_name: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Topic of the journal, with --from.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Certify only this group. Repeat the option for several."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Judge only what ends within this time before the journal's last event, such as 30m or 12h. "
            "What came before is read all the same.",
        ),
    ] = None,
    skew_ms: Annotated[
        float,
        typer.Option(
            min=0, metavar="MS", help="How far the clocks of two replicas may differ, in milliseconds."
        ),
    ] = 100.0,
    live: Annotated[
        bool,
        typer.Option("--live", help="Read also the files that are being written, as far as they are."),
    ] = False,
    gone_after_s: GoneAfter = GONE_AFTER_S,
    kafka: Kafka = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Certify for each group what the journals of all replicas prove: that no partition had two owners at once.

    It goes once through the journal, by the rules of `pipeline audit`, and needs no Spark. A group is proven, violated
    or unproven, with the reasons. The exit code is 3 if a group is violated, 4 if none is but one is unproven.
    """
    check_source(journal, bootstrap, topic_name)
    width_us = None if window is None else _microseconds(window)
    with exit_on_error(), tempfile.TemporaryDirectory(prefix="epochgate-verify-") as folder:
        spool = Spool(Path(folder))
        streams: list[files.FileStream] = []
        unfinished: list[Unfinished] = []
        newest_us = 0
        if journal is not None:
            found = files.find(journal, live=live, gone_after_s=gone_after_s)
            streams = [files.FileStream(label, paths) for label, paths in found.of_processes.items()]
            newest_us = files.last_us(found)
            unfinished = found.unfinished
            for path in found.others:
                spool.add_file(path)
        else:
            settings = kafka_settings(kafka, kafka_conf, kafka_conf_file)
            with _counting("records read") as told:
                topic.read(bootstrap or "", topic_name or "", settings, spool, told)
        streams += spool.streams()
        newest_us = max(newest_us, spool.last_us)
        options = Options(
            groups=tuple(group or ()),
            from_us=0 if width_us is None else newest_us - width_us,
            skew_us=int(skew_ms * 1000),
        )
        with _counting("events verified") as told:
            report = job.run(streams, options, unfinished=unfinished, told=told)
    if output is OutputFormat.JSON:
        print_json(report)
    else:
        printed.show(report)
    code = _exit_code(report)
    if code is not ExitCode.SUCCESS:
        raise typer.Exit(code)


def _exit_code(report: Report) -> ExitCode:
    verdicts = {one.verdict for one in report.certificates}
    if Verdict.VIOLATED in verdicts:
        return ExitCode.PROBLEM_FOUND
    return ExitCode.UNDECIDED if Verdict.UNPROVEN in verdicts or not verdicts else ExitCode.SUCCESS


@contextlib.contextmanager
def _counting(what: str) -> Iterator["job.Told"]:
    """Show on standard error how many there were so far."""
    with console().status(f"0 {what}") as shown:
        yield lambda count: shown.update(f"{count:,} {what}")
