"""Shared by the commands: Spark options, and printing of errors."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from pipeline import kafka_clients, kafka_errors, kafka_section, location, runs
from pipeline import spark as sessions
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems, explanation
from pipeline.kafka_settings import for_java, is_of_java, joined, refuse_secrets, with_files
from pipeline.location import Location
from protocol_codecs.printable import printable
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.kafka_options import KafkaConf, KafkaConfFile, pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

__all__ = [
    "FOLDER",
    "LOCAL_FOLDER",
    "OUT_FILE",
    "Conf",
    "Format",
    "GoneAfter",
    "Kafka",
    "KafkaConf",
    "KafkaConfFile",
    "Master",
    "TableFormat",
    "check_folder",
    "check_source",
    "check_topic",
    "exit_on_error",
    "kafka_settings",
    "pairs",
    "say",
    "say_unfinished",
    "session",
    "source",
]

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark master, such as local[2] or spark://host:7077. Default: the one of spark-submit, else local[*].",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A Spark setting. Repeat the option for several."),
]


class TableFormat(StrEnum):
    """How tables are written."""

    PARQUET = runs.PARQUET
    DELTA = runs.DELTA

    @property
    def form(self) -> runs.Form:
        """Return it as the jobs name it."""
        return runs.DELTA if self is TableFormat.DELTA else runs.PARQUET


Format = Annotated[
    TableFormat,
    typer.Option(
        "--format",
        help="How the tables are written: plain Parquet files, or Delta Lake, whose jars the session must have.",
    ),
]


def _parsed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser of an option's value for Typer."""

    def parser(text: str) -> T:
        try:
            return parse(text)
        except PipelineError as error:
            raise typer.BadParameter(printable(str(error))) from None

    return parser


FOLDER = _parsed(location.parse_folder)
"""Parses a folder of tables or journals, for Spark: a local path or a URI of one of Hadoop's file systems."""
OUT_FILE = _parsed(location.parse)
LOCAL_FOLDER = _parsed(location.parse_local)
"""Parses a folder for commands without Spark."""


GoneAfter = Annotated[
    float,
    typer.Option(
        "--gone-after-s",
        min=0,
        metavar="SECONDS",
        help="A file that is not finished and unchanged for longer than this counts as lost: its process is gone. "
        "At least a minute more than journal.file_max_age_s of the replicas.",
    ),
]
Kafka = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A YAML or JSON file whose section `kafka` says how to connect to brokers: protocol, login, certificates.",
    ),
]


def kafka_settings(
    section: Path | None, texts: list[str] | None, files: list[str] | None, *, for_spark: bool = False
) -> dict[str, str]:
    """Return the settings of the Kafka clients. ``for_spark``: its connector must be able to take them as well.

    Raises typer.BadParameter, or PipelineError of one line without a secret.
    """
    given = pairs(texts)
    refuse_secrets(given)
    settings = with_files(given, pairs(files))
    if section is not None:
        settings = joined(kafka_section.load(section), settings)
    if for_spark:
        for_java(settings)
    return settings


def check_topic(bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
    """Raise PipelineError, with the reason, if the topic can't be read. Java's own settings can't be tried here."""
    if not is_of_java(settings):
        kafka_clients.check_readable(bootstrap, topic, settings)


def say_unfinished(gone: Mapping[str, int | None], written: Mapping[str, int | None]) -> None:
    """Tell of files that were not finished, with the events that only they have."""
    for files, words in ((gone, "nobody finished it, counted as lost"), (written, "being written, not read")):
        for file, count in sorted(files.items()):
            say(f"{file}: {words}: {'no event can be read' if count is None else f'{count} events'}")


def say(text: str, *, err: bool = False) -> None:
    """Print a line with control characters escaped, since it may contain text that clients chose."""
    typer.echo(printable(text), err=err)


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
    """Print a PipelineError without a traceback and exit."""
    try:
        yield
    except PipelineError as error:
        say(f"error: {error}", err=True)
        raise typer.Exit(ExitCode.FAILED) from None


@contextlib.contextmanager
def session(name: str, master: str | None, conf: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Start the Spark session of one command."""
    spark = sessions.start(name, master=master, conf=conf)
    try:
        yield spark
    except Exception as error:
        if (told := kafka_errors.explanation(error) or explanation(error)) is not None:
            raise PipelineError(told) from error
        raise
    finally:
        spark.stop()


def check_folder(spark: "SparkSession", folder: Location) -> Location:
    """Return the folder. Raises PipelineError if it is not there, or its file system can't be asked."""
    if not FileSystems(spark).is_folder(folder):
        raise PipelineError(f"{folder} is not a folder")
    return folder


def check_source(journal: Location | Path | None, bootstrap: str | None, topic: str | None) -> None:
    """Refuse options that name no journal, or two. Raises typer.BadParameter."""
    of_files = journal is not None and bootstrap is None and topic is None
    of_topic = journal is None and bootstrap is not None and topic is not None
    if not (of_files or of_topic):
        raise typer.BadParameter("give either --journal, or --from and --topic")


def source(
    spark: "SparkSession",
    journal: Location | None,
    bootstrap: str | None,
    topic: str | None,
    files: Callable[[str], T],
    kafka: Callable[[str, str], T],
) -> T:
    """Read the journal from the place that the options name (see :func:`check_source`). Raises PipelineError."""
    if journal is None:
        return kafka(bootstrap or "", topic or "")
    return files(check_folder(spark, journal).uri)
