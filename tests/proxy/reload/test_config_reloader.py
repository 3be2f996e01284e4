"""The configuration file, read again: what is done, what is refused, and when it is tried again."""

import errno
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from proxy.config.loader import ConfigError, load_config
from proxy.config.schema import Config
from proxy.metrics.registry import Metrics
from proxy.reload.config_reloader import RETRY_S, ConfigReloader
from proxy.runtime.file_watcher import POLL_INTERVAL_S, FileWatcher
from tests.proxy.reload.reloading import inline

START = """
upstream: {bootstrap: ["kafka:9092"]}
listeners: [{advertised_host: proxy.example, port: 9092, nodes: {"0-2": 9100}}]
"""
SMALLER = START + "limits: {max_connections: 10}\n"
WORKERS = START + "workers: 2\n"


class Process:
    """Notes what it is made to do."""

    def __init__(self) -> None:
        self.configs: list[Config] = []
        self.refuses: str | None = None

    async def reconfigure(self, config: Config) -> None:
        if self.refuses is not None:
            raise ConfigError(self.refuses)
        self.configs.append(config)


class Bench:
    def __init__(self, file: Path) -> None:
        self.file, self.process, self.metrics = file, Process(), Metrics()
        self.problems: list[str] = []
        file.write_text(START)
        self.reloader = ConfigReloader(
            file,
            load_config(file),
            self.process.reconfigure,
            self.metrics,
            check=lambda _read: self.problems,
            run_in_thread=inline,
        )

    @property
    def is_current(self) -> float | None:
        return self.metrics.registry.get_sample_value("epochgate_config_is_current")

    def count(self, result: str) -> float:
        return (
            self.metrics.registry.get_sample_value("epochgate_config_reloads_total", {"result": result}) or 0
        )

    @asynccontextmanager
    async def watched(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.reloader.run)
            nursery.start_soon(FileWatcher(lambda: (self.reloader,)).run)
            await trio.testing.wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()

    async def write(self, text: str) -> None:
        """Change the file, and wait until that must have been noticed."""
        self.file.write_text(text)
        await trio.sleep(3 * POLL_INTERVAL_S)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "epochgate.yaml")


async def test_a_change_is_done_and_logged_step_by_step(autojump_clock, bench: Bench):
    with capture_logs() as logs:
        async with bench.watched():
            await bench.write(SMALLER)
            assert bench.process.configs == [load_config(bench.file)]
            await bench.write(START)
    assert bench.process.configs[1:] == [load_config(bench.file)]
    ((first,), (second,)) = [line["steps"] for line in logs if line["event"] == "configuration applied"]
    assert first.startswith("limits.max_connections: 2147483647 -> 10: ")
    assert second.startswith("limits.max_connections: 10 -> 2147483647: "), (
        "the plan begins at what is in force"
    )
    assert (bench.count("applied"), bench.count("refused"), bench.is_current) == (2, 0, 1)


async def test_a_step_that_needs_a_restart_keeps_all_of_it_from_being_done(autojump_clock, bench: Bench):
    with capture_logs() as logs:
        async with bench.watched():
            await bench.write(WORKERS + "limits: {max_connections: 10}\n")
            await trio.sleep(10 * RETRY_S)
            assert (bench.process.configs, bench.is_current, bench.count("refused")) == ([], 0, 1)
            assert [line["problems"] for line in logs if line["log_level"] == "error"] == [
                ["workers: 1 -> 2: needs a restart: ports are shared by their number"]
            ]
            await bench.write(START)
    assert (bench.process.configs, bench.is_current) == ([], 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            START + "limits: {max_connections: many}\n",
            "epochgate.yaml:4:10: limits.max_connections: expected",
        ),
        (START + "limits: {max_connection: 1}\n", "epochgate.yaml:4:10: limits.max_connection: unknown key"),
        ("a: [", "not valid YAML"),
        ("", "the file is empty"),
    ],
)
async def test_a_file_with_a_mistake_is_refused_with_its_line_and_key(
    autojump_clock, bench: Bench, text: str, problem: str
):
    with capture_logs() as logs:
        async with bench.watched():
            await bench.write(text)
    assert (bench.process.configs, bench.is_current) == ([], 0)
    assert problem in str([line["problems"] for line in logs if "problems" in line])


@pytest.mark.parametrize("where", ["a file that it names", "the process"])
async def test_what_could_not_be_done_is_tried_again_until_it_can(autojump_clock, bench: Bench, where: str):
    with capture_logs() as logs:
        async with bench.watched():
            if where == "the process":
                bench.process.refuses = "port 9092 is taken"
            else:
                bench.problems = ["tls.crt: can't be read"]
            await bench.write(SMALLER)
            await trio.sleep(3 * RETRY_S)
            assert (bench.process.configs, bench.is_current) == ([], 0)
            assert sum(line["log_level"] == "error" for line in logs) == 1, "each reason once"
            bench.problems, bench.process.refuses = [], None
            await trio.sleep(RETRY_S)
    assert (bench.process.configs, bench.is_current) == ([load_config(bench.file)], 1)


async def test_files_that_are_named_do_not_count_while_nothing_changes(autojump_clock, bench: Bench):
    """A bad certificate is reported where it is used, and is mended without this file."""
    bench.problems = ["tls.crt: can't be read"]
    with capture_logs() as logs:
        async with bench.watched():
            bench.reloader.reload("SIGHUP")
            await trio.testing.wait_all_tasks_blocked()
    assert bench.is_current == 1
    assert "configuration read, it changes nothing" in [line["event"] for line in logs]


async def test_a_file_that_can_not_be_read_is_tried_again(autojump_clock, bench: Bench, monkeypatch):
    """Why it can't be shows in nothing that is watched: its permissions, no descriptors, a disk."""

    def fail(file: Path, max_bytes: int) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    async with bench.watched():
        with monkeypatch.context() as broken:
            broken.setattr("proxy.config.loader.read_regular_file", fail)
            await bench.write(SMALLER)
            assert (bench.process.configs, bench.is_current) == ([], 0)
        await trio.sleep(2 * RETRY_S)
    assert (bench.process.configs, bench.is_current) == ([load_config(bench.file)], 1)


@pytest.mark.parametrize("where", ["the check", "the process"])
async def test_an_unexpected_error_is_a_refusal_too(autojump_clock, bench: Bench, monkeypatch, where: str):
    async def fail(*_arguments: object) -> None:
        raise ValueError("embedded null byte")

    def fail_at_once(*_arguments: object) -> list[str]:
        raise ValueError("embedded null byte")

    with capture_logs() as logs:
        async with bench.watched():
            if where == "the process":
                monkeypatch.setattr(bench.reloader, "_reconfigure", fail)
            else:
                monkeypatch.setattr(bench.reloader, "_check", fail_at_once)
            await bench.write(SMALLER)
            await trio.sleep(5 * RETRY_S)
    assert (bench.process.configs, bench.is_current, bench.count("refused")) == ([], 0, 1)
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["problems"] == ["an unexpected error: ValueError: embedded null byte"]


async def test_a_file_of_nothing_but_mistakes_makes_one_short_line(autojump_clock, bench: Bench):
    with capture_logs() as logs:
        async with bench.watched():
            await bench.write(START + "".join(f"x{n}: 1\n" for n in range(1000)))
    (problems,) = [line["problems"] for line in logs if "problems" in line]
    assert len(problems) <= 51
    assert problems[-1] == "and 950 more"
