"""Exporters as processes, ours and others', and the series that they serve."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from support import ROOT
from support.waiting import eventually
from tools.kafka.ports import LOOPBACK, free_ports

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""(name, labels) -> value."""


class Exporter:
    """One that listens on a port of loopback."""

    def __init__(self, port: int) -> None:
        self.target = f"{LOOPBACK}:{port}"

    def series(self, *names: str, path: str = "/metrics") -> Series:
        """The series whose name begins with one of these; none while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.target}{path}", timeout=20) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return {}
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith(names)
        }


def of_group(series: Series, group: str) -> Series:
    """Those of one group, whichever label has it."""
    return {
        (name, labels): value
        for (name, labels), value in series.items()
        if not {("consumergroup", group), ("consumer_group", group)}.isdisjoint(labels)
    }


def wait_for(exporter: Exporter, *names: str, group: str) -> None:
    """Wait until it has series of a group."""
    eventually(
        lambda: of_group(exporter.series(*names), group), what=f"{exporter.target} has series of {group}"
    )


@contextlib.contextmanager
def running(command: Sequence[str], port: int, folder: Path) -> Iterator[Exporter]:
    """A process that serves metrics on a port, stopped at the end; what it says is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{Path(command[0]).name}-{port}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        yield Exporter(port)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def running_ours(bootstrap: str, folder: Path, settings: Mapping[str, object]) -> Iterator[Exporter]:
    """`epochgate exporter`, as an operator starts it."""
    port, unused = free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "upstream": {"bootstrap": bootstrap.split(",")},
        "listeners": [{"bind": LOOPBACK, "port": unused, "advertised_host": LOOPBACK, "nodes": {"0": 1}}],
        "fleet": {"kafka": {"bootstrap.servers": bootstrap}},
        "exporter": {"bind": LOOPBACK, "port": port, **settings},
    }
    file = folder / "exporter.yaml"
    file.write_text(json.dumps(config))
    with running(
        [sys.executable, "-m", "proxy", "exporter", "--config", str(file)], port, folder
    ) as exporter:
        yield exporter


@contextlib.contextmanager
def running_kafka_exporter(
    program: Path, bootstrap: str, folder: Path, *, topics: str, groups: str
) -> Iterator[Exporter]:
    """kafka_exporter for the topics and groups that match."""
    (port,) = free_ports(1)
    command = [
        str(program),
        *(f"--kafka.server={one}" for one in bootstrap.split(",")),
        f"--web.listen-address={LOOPBACK}:{port}",
        f"--topic.filter={topics}",
        f"--group.filter={groups}",
        "--concurrent.enable",  # without it 1.9.0 now and then loses the last series of a scrape
    ]
    with running(command, port, folder) as exporter:
        yield exporter
