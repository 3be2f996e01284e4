"""The tutorial, followed to the letter on a real Kafka: its files, its commands, in its order."""

import os
import re
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from support import find_broker
from support.waiting import eventually

from tests.skips import Need, without
from tools.kafka.ports import free_port_block, free_ports

from . import pages

pytestmark = pytest.mark.kafka

PAGE = Path("docs/tutorial/first-group.md")
BY_MAKE = {"make setup", "make kafka-up", "make kafka-down"}
"""The tests have an environment and a broker already."""


@pytest.fixture(scope="module")
def bootstrap():
    try:
        with find_broker.any_broker() as broker:
            yield broker.bootstrap
    except find_broker.NoBrokerError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")


class Reader:
    """Does what the page says, with ports, topic and group of its own."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        listener, self.admin = free_ports(2)
        names = {"127.0.0.1:9092": bootstrap, "19092": str(listener), "19100": str(free_port_block(10))}
        unique = uuid.uuid4().hex[:8]
        self.own = names | {'"orders"': f'"orders-{unique}"', "payments": f"payments-{unique}"}
        self.background: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "PYTHONPATH": str(pages.ROOT),
            "EPOCHGATE_ADMIN__PORT": str(self.admin),
        }

    def do(self, step: pages.Command | pages.File) -> None:
        if isinstance(step, pages.File):
            (self.folder / step.name).write_text(self.with_own_names(step.text), encoding="utf-8")
        elif step.line == "kill $(jobs -p)":
            self.end_background()
        elif step.line not in BY_MAKE:
            self.run(step)

    def run(self, command: pages.Command) -> None:
        line = self.with_own_names(command.line)
        line = line.replace(".venv/bin/python", shlex.quote(sys.executable))
        line = line.replace(".venv/bin/epochgate", f"{shlex.quote(sys.executable)} -m proxy")
        line = re.sub(r"( status .*)", rf"\1 --admin 127.0.0.1:{self.admin}", line)
        if line.endswith("&"):
            started = subprocess.Popen(
                ["bash", "-c", f"exec {line.removesuffix('&')}"], cwd=self.folder, env=self.environment
            )
            self.background.append(started)
        elif command.until:
            eventually(lambda: self.output(line)[1], lambda shown: command.until in shown, what=command.until)
        else:
            code, output = self.output(line)
            assert code == 0, f"{line}\n{output}"

    def output(self, line: str) -> tuple[int, str]:
        """What it does in the reader's folder."""
        return pages.output(line, self.folder, self.environment)

    def with_own_names(self, text: str) -> str:
        for name, own in self.own.items():
            text = text.replace(name, own)
        return text

    def end_background(self) -> None:
        for process in self.background:
            process.terminate()
        proxy, *consumers = [process.wait(60) for process in self.background]
        assert proxy == 0
        assert consumers == [-15, -15]
        self.background.clear()


def test_the_tutorial_moves_a_group_there_and_back(tmp_path, bootstrap):
    reader = Reader(tmp_path, bootstrap)
    try:
        steps = pages.steps(PAGE)
        assert sum(isinstance(step, pages.Command) and step.until is not None for step in steps) == 3
        for step in steps:
            reader.do(step)
        assert not (tmp_path / "try").exists()
    finally:
        for process in reader.background:
            process.kill()
            process.wait()
