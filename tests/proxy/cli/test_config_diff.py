"""`epochgate config diff`, between two files and against a proxy that runs."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from click.testing import Result
from msgspec.structs import replace
from typer.testing import CliRunner

from proxy.admin.config_view import HIDDEN, config_view, without_secrets
from proxy.cli import command_line
from proxy.config.fleet import Fleet
from proxy.config.schema import Config, Hook, Limits
from proxy.runtime.exit_codes import ExitCode
from tests.proxy.fakes.broker import a_cluster
from tests.proxy.fakes.serving import config_for, serving

SMALLEST = 'upstream: {bootstrap: ["a:1"]}\nlisteners: [{advertised_host: h, nodes: {"0": 9100}}]\n'
SECRET = "kept-secret"  # noqa: S105  of nothing


def diff(old: object, new: object, *more: str, **environment: str) -> Result:
    return CliRunner().invoke(
        command_line(), ["config", "diff", str(old), str(new), *more], env=environment, catch_exceptions=False
    )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    file = tmp_path / "running" / "epochgate.yaml"
    file.parent.mkdir()
    file.write_text(SMALLEST)
    return file


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The new content, in another folder."""
    return tmp_path / "new.yaml"


def test_the_same_is_no_difference(old: Path, new: Path) -> None:
    new.write_text(f"# with a comment\n{SMALLEST}log: {{level: info}}\n")
    done = diff(old, new)
    assert (done.exit_code, done.output) == (ExitCode.SUCCESS, "no difference\n")


def test_each_change_is_a_line(old: Path, new: Path) -> None:
    new.write_text(f"{SMALLEST}limits: {{idle_timeout_s: 5}}\nlog: {{level: debug}}\n")
    done = diff(old, new)
    assert done.exit_code == ExitCode.SUCCESS
    assert done.output.splitlines() == [
        "reload   limits.idle_timeout_s: 600.0 -> 5.0: connections are bound by it from now on",
        'reload   log.level: "info" -> "debug": lines are written by it from now on',
        "2 changes are made without a restart",
    ]


def test_what_needs_a_restart_comes_first(old: Path, new: Path) -> None:
    new.write_text(f"{SMALLEST}limits: {{idle_timeout_s: 5}}\nworkers: 2\n")
    done = diff(old, new)
    assert done.exit_code == ExitCode.PROBLEM_FOUND
    assert done.output.splitlines() == [
        "restart  workers: 1 -> 2: needs a restart: ports are shared by their number",
        "reload   limits.idle_timeout_s: 600.0 -> 5.0: connections are bound by it from now on",
        "nothing would be changed: 1 of 2 changes needs a restart",
    ]


def test_as_json(old: Path, new: Path) -> None:
    new.write_text(f"{SMALLEST}workers: 2\n")
    done = diff(old, new, "-o", "json")
    assert done.exit_code == ExitCode.PROBLEM_FOUND
    assert json.loads(done.output) == {
        "old": str(old),
        "new": str(new),
        "valid": True,
        "steps": [
            {
                "kind": "restart",
                "key": "workers",
                "text": "1 -> 2: needs a restart: ports are shared by their number",
                "listener": None,
            }
        ],
        "needs_restart": True,
        "not_compared": [],
        "verdict": "nothing would be changed: 1 of 1 changes needs a restart",
    }


def test_paths_are_relative_to_the_folder_of_the_running_file(old: Path, new: Path) -> None:
    text = f"{SMALLEST}policy: {{file: policy.yaml}}\nadmin: {{token_file: token}}\n"
    old.write_text(text)
    new.write_text(text)
    (old.parent / "policy.yaml").write_text("default: observe\n")
    token = old.parent / "token"
    token.write_text("a-token-of-16-characters\n")
    token.chmod(0o600)
    assert diff(old, new).output == "no difference\n"
    token.unlink()
    done = diff(old, new)
    assert done.exit_code == ExitCode.USAGE
    assert str(token) in done.output


def test_the_environment_overrides_both(old: Path, new: Path) -> None:
    new.write_text(f"{SMALLEST}log: {{level: debug}}\n")
    assert diff(old, new, EPOCHGATE_LOG__LEVEL="error").output == "no difference\n"


@pytest.mark.parametrize("text", ["workres: 2\n", "control: {socket: a, bind: 127.0.0.1}\n"])
def test_a_mistake_has_its_file_and_line(old: Path, new: Path, text: str) -> None:
    new.write_text(f"{SMALLEST}{text}")
    done = diff(old, new)
    assert done.exit_code == ExitCode.USAGE
    assert f"error: {new}:3:1: {text.partition(':')[0]}: " in done.output
    errors = json.loads(diff(old, new, "-o", "json").stdout)["errors"]
    assert errors[0].startswith(f"{new}:3:1:")


# -- against a proxy -----------------------------------------------------------------------------------------


def with_secrets(config: Config) -> Config:
    kafka: dict[str, Any] = {"bootstrap.servers": "a:1", "sasl.username": SECRET, "ssl.key.password": SECRET}
    return replace(
        config,
        fleet=Fleet(kafka=kafka, kafka_files={"sasl.password": "/file"}),
        hook=Hook(url=f"https://hook.example/{SECRET}"),
    )


def test_no_secret_is_shown() -> None:
    config = with_secrets(config_for({}))
    view = config_view(config, Path("/folder"))
    assert SECRET not in msgspec.json.encode(view).decode()
    assert view.hidden == ("fleet.kafka.sasl.username", "fleet.kafka.ssl.key.password", "hook.url")
    assert view.config["fleet"]["kafka"] == {
        "bootstrap.servers": "a:1",
        "sasl.username": HIDDEN,
        "ssl.key.password": HIDDEN,
    }
    assert msgspec.convert(view.config, Config) == without_secrets(config)[0]


def written(config: Config) -> str:
    """A file of this configuration."""
    return msgspec.yaml.encode(msgspec.to_builtins(config)).decode()


async def test_a_file_is_compared_with_what_is_in_force(tmp_path: Path) -> None:
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        config, _ = proxy.server.in_force()
        url = f"http://127.0.0.1:{proxy.server.ports.admin}"
        new = tmp_path / "new.yaml"
        changed = replace(config, limits=Limits(sasl_max_bytes=2048))
        for content, verdict in (
            (config, "no difference"),
            (changed, "1 change is made without a restart"),
        ):
            new.write_text(written(content))
            done = await trio.to_thread.run_sync(diff, url, new)
            assert (done.exit_code, done.output.splitlines()[-1]) == (ExitCode.SUCCESS, verdict)
        new.write_text(written(with_secrets(config)))
        done = await trio.to_thread.run_sync(diff, url, new)
        assert done.exit_code == ExitCode.PROBLEM_FOUND
        assert SECRET not in done.output
        assert "not compared, as the proxy does not show it: fleet.kafka.sasl.username" in done.output
