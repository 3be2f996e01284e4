"""Prints the security matrix: ``python -m tests.integration.security_matrix --version 4.4.0 --version 4.0.1``."""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support import find_broker

from tools.kafka.tls_files import TlsFiles

from . import table
from .calls import CALLS
from .differences import unexplained
from .matrix import Cell, Way, places, play_all, secured_broker


def main(arguments: Sequence[str]) -> int:
    """Play and print; 1 if a cell differs without a reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.security_matrix", description=__doc__)
    parser.add_argument(
        "--version", action="append", dest="versions", help="of Kafka; may be given several times"
    )
    parser.add_argument("--only", default="", help="play the rows that have this text in them")
    parser.add_argument("--write", action="store_true", help=f"write the whole matrix into {table.PAGE.name}")
    options = parser.parse_args(arguments)
    if options.write and options.only:
        parser.error("--write needs all rows")
    versions = options.versions or [find_broker.wanted_version()]
    matrices = {version: play_on(version, options.only) for version in versions}
    text = table.chapter(matrices)
    print(text)
    if options.write:
        page = table.PAGE.read_text(encoding="utf-8")
        table.PAGE.write_text(table.page_with(text, page), encoding="utf-8")
    return 1 if any(unexplained(cells, version) for version, cells in matrices.items()) else 0


def play_on(version: str, only: str = "") -> list[Cell]:
    """The matrix of each way, or some rows of it, on a broker that is started for it."""
    calls = [call for call in CALLS if only in f"{call.api} {call.title}"]
    name = f"security-matrix-{version}"
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as stack,
    ):
        tls = TlsFiles(Path(folder) / "tls")
        broker = secured_broker(tls)
        cluster = stack.enter_context(find_broker.own_cluster(name, version=version, say=say, **broker))
        places_of = stack.enter_context(places(cluster, tls, Path(folder)))
        return [cell for way in Way for cell in play_all(places_of, way, calls)]


def say(what: str) -> None:
    """Progress, apart from the table."""
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
