"""The command line, as a person or a container runs it: output and exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from proxy import VERSION
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.certificates import Authority

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
    assert (done.returncode, "1 rule," in done.stdout) == (0, True)


def test_a_check_of_the_configuration_includes_that_of_the_policy(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{group: g, mode: observe, assignor: range}]\n")
    file = config_file(tmp_path, more="policy: {file: policy.yaml}\n")
    done, alone = epochgate("config", "check", file), epochgate("policy", "check", policy)
    assert done.stdout == f"{file}: good\n{alone.stdout}"
    assert "  the assignor range has no effect" in done.stdout
    both = [
        json.loads(epochgate(*one, "-o", "json").stdout)
        for one in (("config", "check", file), ("policy", "check", policy))
    ]
    assert both[0]["policy"] == both[1]


def test_a_check_of_the_configuration_as_json(tmp_path):
    good = epochgate("config", "check", config_file(tmp_path), "-o", "json")
    report = {"file": f"{tmp_path}/epochgate.yaml", "valid": True, "errors": [], "policy": None}
    assert json.loads(good.stdout) == report
    file = config_file(tmp_path, more="workres: 2\n")
    bad = epochgate("config", "check", file, "--output", "json")
    assert (bad.returncode, json.loads(bad.stdout)["valid"]) == (2, False)
    assert json.loads(bad.stdout)["errors"][0].startswith(f"{file}:5:1: workres: unknown key")
    assert "unknown key" in bad.stderr


def test_a_check_of_the_policy_as_json(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("rules: [{group: g, mode: observe, assignor: range}]\n")
    report = json.loads(epochgate("policy", "check", file, "-o", "json").stdout)
    assert (report["valid"], report["default"]) == (True, "observe")
    (rule,) = report["rules"]
    assert (rule["number"], rule["group"], rule["pattern"], rule["mode"]) == (1, "g", None, "observe")
    assert rule["notes"] == ["the assignor range has no effect: only translated groups get one"]
    file.write_text("default: translat\n")
    assert json.loads(epochgate("policy", "check", file, "-o", "json").stdout)["valid"] is False


def test_files_of_tls_are_looked_into(tmp_path):
    """Their paths are relative to the configuration."""
    authority = Authority(tmp_path / "tls")
    authority.issue("good")
    listener = (
        "- {{advertised_host: h, nodes: {{'0': 0}}, tls: {{certificate: tls/good.pem, key: tls/{}.key}}}}"
    )
    file = tmp_path / "epochgate.yaml"
    for key, code, said in (("good", 0, "good"), ("another", 2, "tls/another.key: can't be read")):
        file.write_text(f"upstream: {{bootstrap: ['a:1']}}\nlisteners:\n  {listener.format(key)}\n")
        done = epochgate("config", "check", file)
        assert done.returncode == code
        assert said in done.stdout + done.stderr


WITHOUT_CONFLUENT = """
import sys
sys.modules["confluent_kafka"] = None
from proxy.cli import main
sys.argv[0] = "epochgate"
main()
"""
"""The command line where confluent-kafka is not installed."""


def test_only_a_member_log_needs_confluent_kafka(tmp_path):
    for more, code, said in (
        ("", 0, "good"),
        ("fleet: {kafka: {bootstrap.servers: k}}\n", 2, "pip install '.[fleet]' in a checkout of Epochgate"),
    ):
        file = config_file(tmp_path, more=more)
        command = [sys.executable, "-c", WITHOUT_CONFLUENT, "config", "check", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_secrets_of_the_member_log_are_looked_into(tmp_path):
    fleet = "fleet: {kafka: {bootstrap.servers: k}, kafka_files: {sasl.password: secret}}\n"
    file = config_file(tmp_path, more=fleet)
    for command in (("config", "check"), ("run", "--config")):
        done = epochgate(*command, file)
        assert (done.returncode, "fleet.kafka_files.sasl.password: " in done.stderr) == (2, True)
    (tmp_path / "secret").write_text("s3cret\n")
    assert epochgate("config", "check", file).returncode == 0


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
    """A broker that names its versions and then wants authentication, as often as it is asked."""
    with suppress(OSError):  # the test is over
        while True:
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
        assert any("no broker reached yet" in line for line in process.stderr)
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_is_exit_0(tmp_path, number, workers):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_versions, args=(server,), daemon=True).start()
        file = config_file(tmp_path, broker=server.getsockname()[1], more=f"workers: {workers}\n")
        with subprocess.Popen(
            [sys.executable, "-m", "proxy", "run", "--config", file], stderr=subprocess.PIPE, text=True
        ) as process:
            lines = []
            for text in process.stderr:
                line = json.loads(text)
                if line["event"] == "ready" and "worker" not in line:
                    process.send_signal(number)
                lines.append(line)
            assert process.wait(timeout=60) == 0
    own = [line for line in lines if "worker" not in line]
    begin = [line["event"] for line in own]
    assert begin[:2] == ["starting", "status page"]
    assert begin.index("listening") < begin.index("ready")
    assert own[0]["version"] == VERSION
    assert own[0]["config"] == str(file)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", own[1]["url"])
    assert [line["event"] for line in own[-2:]] == ["draining", "drained"]
    assert own[-2]["signal"] == number.name
    drained = {line["worker"] for line in lines if "worker" in line and line["event"] == "drained"}
    assert drained == (set() if workers == 1 else {0, 1})


def test_a_worker_that_can_not_start_is_exit_1(tmp_path):
    done = epochgate("run", "--config", config_file(tmp_path, broker=1, more="workers: 2\n"))
    assert done.returncode == 1
    assert "no broker could be reached within 0.5 s" in done.stderr
    assert "ended with exit code 1 before it took clients" in done.stderr
    assert "Traceback" not in done.stderr
