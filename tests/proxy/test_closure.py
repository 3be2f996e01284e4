"""What a serving proxy loads of this project, by configuration: modules and lines that are needed, and no others."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
import sys
from pathlib import Path
import trio
from proxy.cli import run
from proxy.cli.configuration import load
from proxy.metrics.registry import Metrics
from proxy.server.process import make_fleet, make_translator
from proxy.server.server import Server

async def compose():
    config, policy = load(Path(sys.argv[1]))
    metrics = Metrics()
    fleet = make_fleet(config, "replica", metrics)
    translator = make_translator(config, policy, fleet)
    server = Server(config, translator, metrics=metrics, policy=policy, fleet=fleet)
    run.preflights_of(server, config, policy)
    async with trio.open_nursery() as nursery:
        server.observability.start(nursery, server.driver)
        nursery.cancel_scope.cancel()

trio.run(compose)
rooms = {"protocol_codecs", "translation", "coordinator", "hosting", "proxy", "pipeline"}
lines = {
    name: Path(module.__file__).read_text(encoding="utf-8").count("\\n")
    for name, module in sorted(sys.modules.items())
    if name.split(".")[0] in rooms
}
print(json.dumps(lines))
"""
SMALLEST = """
upstream: {bootstrap: ["127.0.0.1:9"]}
listeners: [{bind: 127.0.0.1, port: 0, advertised_host: proxy.example, nodes: {"0-9": 0}}]
admin: {bind: 127.0.0.1, port: 0}
"""
CONFIGURATIONS = {
    "smallest": f"{SMALLEST}preflight: {{enabled: false}}\nshadow: {{enabled: false}}\n",
    "default": SMALLEST,
    "chart's": f"""{SMALLEST}fleet:
  topic: epochgate-members
  kafka: {{"bootstrap.servers": "127.0.0.1:9"}}
  expires: auto
  replica_names: {{every: replicas.example, writing: writers.example, own_address: 127.0.0.1}}
journal: {{topic: epochgate-journal}}
control: {{socket: FOLDER/control}}
""",
}
MOST = {"smallest": (356, 45_000), "default": (360, 45_400), "chart's": (403, 52_100)}
"""Modules and lines that were measured, the lines rounded up to hundreds.

At the start: what forecasts need is loaded with the first observed group that a broker describes, the JSON interface
with its first request.
"""
CHARTS_KEYS = (
    "proxy.control",
    "proxy.reload.config_map_watch",
    "proxy.groups.lag",
    "proxy.groups.fleet_reading",
    "proxy.journal.journal_sinks",
    "translation.member_log.member_log",
)
NO_KEY = (
    "coordinator",
    "hosting",
    "proxy.connection.dial_for_client",
    "proxy.connection.kept_authentication",
    "proxy.control.hook_caller",
    "proxy.exporter",
    "proxy.groups.shadow_update",
    "proxy.identity",
    "proxy.proof",
    "proxy.session.reauthentication",
    "proxy.transport.proxied_port",
    "proxy.transport.revocation",
    "proxy.transport.sasl_exchange",
    "proxy.wire.proxy_header",
    "proxy.wire.sasl_login",
    "proxy.workers",
)
WITHOUT_ITS_KEY = {
    "smallest": (*NO_KEY, *CHARTS_KEYS, "pipeline.rules.lines", "proxy.preflight"),
    "default": (*NO_KEY, *CHARTS_KEYS),
    "chart's": NO_KEY,
}
NEVER = (
    "pipeline.commands",
    "pipeline.spark",
    "protocol_codecs.all_apis",
    "protocol_codecs.records",
    "proxy.admin.api",
    "proxy.admin.status_page",
    "proxy.demo",
    "proxy.groups.fleet_join",
    "proxy.preflight.checks",
)


@pytest.mark.parametrize("which", CONFIGURATIONS)
def test_a_proxy_loads_what_its_configuration_needs(which: str, tmp_path):
    file = tmp_path / "epochgate.yaml"
    file.write_text(CONFIGURATIONS[which].replace("FOLDER", str(tmp_path)))
    # Variables of this name are settings of the proxy too.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("EPOCHGATE_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout.splitlines()[-1])  # what is logged comes before
    extra = [name for name in lines if name.startswith((*WITHOUT_ITS_KEY[which], *NEVER))]
    assert extra == []
    modules_most, lines_most = MOST[which]
    assert len(lines) <= modules_most
    assert sum(lines.values()) <= lines_most
