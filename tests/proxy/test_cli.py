"""The command line, as a person or a container runs it: output and exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fakes import messages, wire

CONFIG = """\
upstream: {{bootstrap: ["127.0.0.1:{broker}"], startup_timeout_s: 0.5}}
listeners:
  - {{bind: 127.0.0.1, port: {port}, advertised_host: localhost, nodes: {{"0-1": 0}}}}
admin: {{port: 0}}
"""


def epochgate(
    *arguments: str | Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proxy", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def config_file(folder: Path, *, broker: int = 1, port: int = 0, more: str = "") -> Path:
    file = folder / "epochgate.yaml"
    file.write_text(CONFIG.format(broker=broker, port=port) + more)
    return file


def test_version():
    done = epochgate("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"epochgate \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("command", [("run", "--config"), ("config", "check")])
def test_a_bad_configuration_is_exit_2_with_the_place_on_stderr(tmp_path, command):
    file = config_file(tmp_path, more="workres: 2\n")
    done = epochgate(*command, file)
    assert done.returncode == 2
    assert f"{file}:5:1: workres: unknown key; did you mean `workers`?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_policy_is_exit_2(tmp_path):
    (tmp_path / "policy.yaml").write_text("default: translat\n")
    file = config_file(tmp_path, more="policy: {file: policy.yaml}\n")
    for arguments in (("run", "--config", file), ("policy", "check", tmp_path / "policy.yaml")):
        done = epochgate(*arguments)
        assert done.returncode == 2
        assert "policy.yaml:1:1: default" in done.stderr


def test_a_missing_file_is_exit_2(tmp_path):
    assert epochgate("run", "--config", tmp_path / "nowhere.yaml").returncode == 2


def test_good_files_are_good(tmp_path):
    (tmp_path / "policy.yaml").write_text("rules: [{group: g, mode: translate}]\n")
    assert epochgate("config", "check", config_file(tmp_path)).returncode == 0
    done = epochgate("policy", "check", tmp_path / "policy.yaml")
    assert (done.returncode, "1 rules" in done.stdout) == (0, True)


def test_the_schema_is_json():
    schema = json.loads(epochgate("config", "schema").stdout)
    assert "listeners" in schema["$defs"]["Config"]["properties"]


def test_a_taken_port_is_exit_1(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = epochgate("run", "--config", config_file(tmp_path, port=taken.getsockname()[1]))
    assert done.returncode == 1
    assert "the port is taken" in done.stderr
    assert "Traceback" not in done.stderr


def test_brokers_that_can_not_be_reached_are_exit_1(tmp_path):
    done = epochgate("run", "--config", config_file(tmp_path, broker=1))
    assert done.returncode == 1
    assert "no broker could be reached within 0.5 s: 127.0.0.1:1: Connection refused" in done.stderr
    assert "Traceback" not in done.stderr


def answer_versions(server: socket.socket) -> None:
    """A broker that names its versions and then wants authentication."""
    connection, _ = server.accept()
    with connection:
        request = connection.recv(1000)
        response = messages.api_versions_response()
        connection.sendall(wire.response(18, 0, wire.correlation_id(request), response))


def test_a_signal_during_the_start_is_exit_0(tmp_path):
    file = config_file(tmp_path)
    file.write_text(file.read_text().replace("0.5", "60"))
    with subprocess.Popen(
        [sys.executable, "-m", "proxy", "run", "--config", file], stderr=subprocess.PIPE, text=True
    ) as process:
        assert "no broker reached yet" in process.stderr.readline()
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_is_exit_0(tmp_path, number):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_versions, args=(server,), daemon=True).start()
        file = config_file(tmp_path, broker=server.getsockname()[1])
        with subprocess.Popen(
            [sys.executable, "-m", "proxy", "run", "--config", file], stderr=subprocess.PIPE, text=True
        ) as process:
            lines = []
            for line in process.stderr:
                lines.append(json.loads(line))
                if lines[-1]["event"] == "listening":
                    process.send_signal(number)
            assert process.wait(timeout=30) == 0
    assert [line["event"] for line in lines[-2:]] == ["draining", "drained"]
    assert lines[-2]["signal"] == number.name
