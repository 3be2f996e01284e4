"""``epochgate exporter``."""

import os
from pathlib import Path
from typing import Annotated

import trio
import typer

from proxy.cli.configuration import INVALID, refused
from proxy.config.fleet import kafka_properties
from proxy.config.loader import load_config
from proxy.exporter.exporter import serve_exporter
from proxy.runtime.log_setup import configure
from proxy.server.process import StartError, check_fleet, run_to_exit


def exporter(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The configuration file (YAML).")
    ],
) -> None:
    """Serve the lag of all groups as metrics, under the names of common exporters, until SIGTERM or Ctrl-C.

    Run one for a cluster: with two, sums over groups would be twice as large. The exit code is 2 if the configuration
    is invalid or has no `exporter`.
    """
    try:
        loaded = load_config(config)
        check_fleet(loaded)
        if loaded.exporter is None or loaded.fleet is None:
            raise StartError("the configuration has no `exporter`")
        account = kafka_properties(loaded.fleet, os.environ)
    except INVALID as error:
        raise refused(error) from None
    configure(loaded.log)
    run_to_exit(lambda: trio.run(serve_exporter, loaded, account))
