"""Wrong configurations, as people write them: what `epochgate config check` prints for each.

The messages are recorded in `wrong_files.txt`, for people to read. `EPOCHGATE_RECORD=1` records them again.
"""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proxy.cli import command_line

RECORDED = Path(__file__).parent / "wrong_files.txt"

GOOD = """\
upstream:
  bootstrap: ["kafka-0:9092"]
listeners:
  - bind: 127.0.0.1
    port: 9092
    advertised_host: localhost
    nodes: {"0-9": 9100}
admin: {bind: 127.0.0.1, port: 9080}
policy: {file: policy.yaml}
"""
POLICY = "rules:\n  - {group: payments, mode: translate}\n"
LISTENER = '  - {bind: 127.0.0.1, port: 9092, advertised_host: localhost, nodes: {"0": 9200}}\n'
TLS = "    tls: {certificate: server.pem, key: server.key}\n"


def edited(*edits: tuple[str, str]) -> str:
    text = GOOD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def policy(text: str) -> dict[str, str]:
    return {"epochgate.yaml": GOOD, "policy.yaml": text}


CASES: dict[str, str | dict[str, str]] = {
    "an empty file": "",
    "only comments": "# later\n",
    "a list": "- upstream\n",
    "no YAML": edited(("{file: policy.yaml}", "{file: policy.yaml")),
    "no YAML in one section, and more that is wrong": edited(
        ("{file: policy.yaml}", "{file: policy.yaml"),
        ("port: 9080", "prt: 9080"),
        ("bootstrap", "bootstraps"),
    )
    + "drain: {grace_s: 10m}\n",
    "no YAML in the configuration nor in the policy": {
        "epochgate.yaml": GOOD + "drain: [\n",
        "policy.yaml": "default: migrate\nrules: [{group: a, mode: translate}\n",
    },
    "a tab": edited(("  bootstrap", "\tbootstrap")),
    "a misspelt section": edited(("upstream:", "upstreams:")),
    "a misspelt key": edited(("port: 9080", "prt: 9080")),
    "a required key is missing": edited(("    advertised_host: localhost\n", "")),
    "a key without its value": edited(("advertised_host: localhost", "advertised_host:")),
    "a key given twice": GOOD + "admin: {}\n",
    "a duration with a unit": GOOD + "drain: {grace_s: 10m}\n",
    "milliseconds with a unit": GOOD + "initial_rebalance_delay_ms: 3s\n",
    "bytes with a unit": GOOD + "limits: {frame_max_bytes: 100MB}\n",
    "a number below its bound": GOOD + "workers: 0\n",
    "a word for a number": edited(("port: 9080", "port: default")),
    "a port that does not exist": edited(("port: 9080", "port: 90800")),
    "a word that is not accepted": GOOD + "log: {level: verbose, format: text}\n",
    "yes in quotes for true": GOOD + "sole_process: 'yes'\n",
    "a text for a list": edited(('["kafka-0:9092"]', "kafka-0:9092")),
    "a broker without its port": edited(("kafka-0:9092", "kafka-0")),
    "two addresses on one port": edited(("port: 9080", "port: 9105")),
    "two keys of a listener on one port": edited(("port: 9092", "port: 9104")),
    "two clashes, and files of a hook that are not there": edited(
        ("admin:", LISTENER + "admin:"), ("port: 9080", "port: 9105")
    )
    + "hook: {url: 'https://example.org', ca: ca.pem, token_file: token}\n",
    "node ranges that overlap": edited(('{"0-9": 9100}', '{"0-9": 9100, "9-12": 9200}')),
    "no policy file": {"epochgate.yaml": GOOD},
    "a directory without policies as the policy": edited(("policy.yaml", ".")),
    "no files of TLS": edited(("admin:", TLS + "admin:")),
    "no password of the member log": GOOD
    + "fleet: {kafka: {bootstrap.servers: k}, kafka_files: {sasl.password: secret}}\n",
    "a pattern that is none": policy("rules:\n  - {pattern: 'web-(', mode: translate}\n"),
    "a rule without effect in the policy": policy("rules:\n  - {group: a, mode: migrate}\n  - {group: b}\n"),
    "many at once": edited(
        ("port: 9092", "port: many"), ("port: 9080", "prt: 9080"), ("policy.yaml", "polizy.yaml")
    )
    + "drain: {grace_s: 10m}\nworkers: 65\n",
}


def printed(name: str) -> str:
    """What the command prints for a case, in the working directory."""
    case = CASES[name]
    for file, text in (
        {"epochgate.yaml": case, "policy.yaml": POLICY} if isinstance(case, str) else case
    ).items():
        Path(file).write_text(text)
    done = CliRunner().invoke(command_line(), ["config", "check", "epochgate.yaml"])
    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.output


def recorded() -> dict[str, str]:
    blocks = RECORDED.read_text().split("\n# ")[1:]
    return {name: text for name, _, text in (block.partition("\n\n") for block in blocks)}


@pytest.fixture(scope="module", autouse=True)
def record(tmp_path_factory):
    if os.environ.get("EPOCHGATE_RECORD"):
        blocks = []
        for name in CASES:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(tmp_path_factory.mktemp("case"))
                blocks.append(f"\n# {name}\n\n{printed(name)}")
        RECORDED.write_text(
            "What `epochgate config check` prints. See test_wrong_files.py.\n" + "".join(blocks)
        )


@pytest.mark.parametrize("name", CASES)
def test_the_messages_are_the_recorded_ones(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed(name) == recorded()[name]
