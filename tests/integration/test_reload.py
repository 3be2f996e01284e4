"""Twenty clients stay in their group, on their connections, while everything that can be reloaded is reloaded."""

import contextlib
import copy
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import Kafka
from support.clients import CONFLUENT, KAFKA_PYTHON
from support.entry import LIMITS_OF_TEST_BROKERS, Proxy, running_proxy
from support.live_group import MODE, LiveGroup
from support.load import Load
from support.waiting import eventually

from tools.kafka.ports import LOOPBACK, free_port_block, free_ports
from tools.kafka.tls_files import TlsFiles

pytestmark = pytest.mark.kafka

PLAIN = 12
"""Clients of librdkafka at the plain listener; as many more as are missing to 20 come by TLS, or are kafka-python."""
BY_TLS = 4
KAFKA_PYTHONS = 4
PARTITIONS = 20

Config = dict[str, Any]


class Reloaded:
    """A proxy with a plain listener and one by TLS, and the configuration file that it has now."""

    def __init__(self, proxy: Proxy, live: LiveGroup) -> None:
        self.proxy, self.live = proxy, live
        self.file = proxy.folder / "epochgate.yaml"
        self.config: Config = json.loads(self.file.read_text())

    def reload(self, config: Config, *ends: str, by_signal: bool = False) -> list[str]:
        """Put a configuration in force; returns its steps.

        `config diff` has to show the same steps beforehand. No client may rejoin, no connection end but by these
        causes, and all go on reading.
        """
        shown = self._diff(config)
        before = self._counts()
        marks = [one.mark() for one in self.live.members]
        self._write(config)
        if by_signal:
            self.proxy.signal(signal.SIGHUP)
        eventually(
            self._applied, lambda count: count > before["applied"], what="it is in force", timeout_s=30
        )
        steps = self._log("configuration applied")["steps"]
        assert [str(step) for step in steps] == shown
        self.live.read_up_to_now()
        assert self.live.callbacks(marks) == []

        def ended() -> set[str]:
            now = self._counts()["ends"]
            return {cause for cause, count in now.items() if count > before["ends"].get(cause, 0)}

        eventually(ended, lambda causes: causes >= set(ends), what="connections end at rest", timeout_s=30)
        assert ended() == set(ends)
        assert self._counts()["joins"] == before["joins"], "no client rejoined"
        self.config = config
        return shown

    def refuse(self, config: Config, text: str | None = None) -> list[str]:
        """Write a configuration that is refused, and then the one of before; returns the problems."""
        before = self._counts()
        self._write(config, text)
        eventually(self._refused, lambda count: count > before["refused"], what="it is refused", timeout_s=30)
        problems = [
            str(problem) for problem in self._log("configuration refused, the one before stays")["problems"]
        ]
        assert "epochgate_config_is_current 0.0" in self.proxy.metrics()
        self.live.read_up_to_now()
        after = self._counts()
        self._write(self.config)
        eventually(
            self.proxy.metrics, lambda text: "epochgate_config_is_current 1.0" in text, what="it counts again"
        )
        assert (after["joins"], after["ends"], after["applied"]) == (
            before["joins"],
            before["ends"],
            before["applied"],
        )
        return problems

    def _write(self, config: Config, text: str | None = None) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(config, indent=2) if text is None else text)
        new.rename(self.file)

    def _diff(self, config: Config) -> list[str]:
        new = self.proxy.folder / "candidate.yaml"
        new.write_text(json.dumps(config, indent=2))
        command = ["-m", "proxy", "config", "diff", str(self.file), str(new), "--output", "json"]
        said = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert said.returncode == 0, said.stdout + said.stderr
        return [f"{step['key']}: {step['text']}" for step in json.loads(said.stdout)["steps"]]

    def _log(self, event: str) -> dict[str, Any]:
        lines = (json.loads(line) for line in self.proxy.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event][-1]

    def _counts(self) -> dict[str, Any]:
        text = self.proxy.metrics()
        joins = re.findall(
            r'^epochgate_client_to_proxy_request_total\{api_key="JOIN_GROUP".*\} (\S+)$', text, re.MULTILINE
        )
        ends = re.findall(
            r'^epochgate_client_to_proxy_disconnects_total\{cause="(\w+)"\} (\S+)$', text, re.MULTILINE
        )
        assert joins, text
        return {
            "applied": self._of(text, "applied"),
            "refused": self._of(text, "refused"),
            "joins": sum(map(float, joins)),
            "ends": {cause: float(count) for cause, count in ends},
        }

    def _applied(self) -> float:
        return self._of(self.proxy.metrics(), "applied")

    def _refused(self) -> float:
        return self._of(self.proxy.metrics(), "refused")

    @staticmethod
    def _of(text: str, result: str) -> float:
        found = re.search(
            rf'^epochgate_config_reloads_total\{{result="{result}"\}} (\S+)$', text, re.MULTILINE
        )
        return float(found[1]) if found else 0.0


@pytest.fixture
def tls(folder) -> TlsFiles:
    return TlsFiles(folder / "tls")


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def reloaded(request, kafka: Kafka, consumers, group, tls, folder: Path) -> Iterator[Reloaded]:
    topic = kafka.new_topic(partitions=PARTITIONS)
    (port,) = free_ports(1)
    certificate, key = tls.issue("proxy")
    secured = {
        "bind": LOOPBACK,
        "port": port,
        "advertised_host": LOOPBACK,
        "nodes": {"0-9": free_port_block(10)},
        "tls": {"certificate": str(certificate), "key": str(key)},
    }
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(
            running_proxy(
                kafka.bootstrap,
                folder / "proxy",
                policy=MODE.format(mode="translate"),
                workers=request.param,
                more_listeners=[secured],
                more={"log": {"format": "json"}},
            )
        )
        live = LiveGroup(kafka, consumers, [proxy], group, {topic: PARTITIONS})
        live.loads = [stack.enter_context(Load(kafka, topic))]
        live.start(CONFLUENT, "range", count=PLAIN)
        live.start(KAFKA_PYTHON, "range", count=KAFKA_PYTHONS)
        live.entries = [f"{LOOPBACK}:{port}"]
        by_tls = {"security.protocol": "ssl", "ssl.ca.location": str(tls.ca)}
        live.start(CONFLUENT, "range", count=BY_TLS, own_settings=by_tls)
        live.until_shared()
        live.until_quiet()
        live.read_up_to_now()
        yield Reloaded(proxy, live)
        live.loads[0].stop()
        live.read_up_to_now()
        live.account()


def test_a_reload_of_each_kind_costs_twenty_clients_nothing(
    reloaded: Reloaded, tls, kafka, consumers, folder
):
    config = copy.deepcopy(reloaded.config)
    plain, secured = config["listeners"]

    config["limits"] = {**LIMITS_OF_TEST_BROKERS, "max_connections_per_address": 500, "idle_timeout_s": 300}
    reloaded.reload(config)

    certificate, key = tls.issue("proxy-2")  # certificates and trust stores, for connections from now on
    secured["tls"] = {
        "certificate": str(certificate),
        "key": str(key),
        "client_ca": str(tls.ca),
        "client_auth": "optional",
    }
    secured["identity"] = "none"
    reloaded.reload(config)

    plain["nodes"] = {**plain["nodes"], "20-22": free_port_block(3)}
    reloaded.reload(config)
    plain["nodes"].pop("20-22")
    reloaded.reload(config, by_signal=True)

    config["upstream"] = {
        "bootstrap": [kafka.bootstrap, *config["upstream"]["bootstrap"]],
        "connect_timeout_s": 5,
    }
    reloaded.reload(config)

    config["log"] = {"format": "json", "level": "debug"}
    config["drain"] = {"grace_s": 10}
    reloaded.reload(config)

    (port,) = free_ports(1)
    third = {**plain, "port": port, "nodes": {"0-9": free_port_block(10)}}
    config["listeners"] = [third, plain, secured]  # those of before have other numbers now
    reloaded.reload(config)
    topic = kafka.new_topic(partitions=1)
    newcomer = consumers.start(CONFLUENT, f"{LOOPBACK}:{port}", f"{reloaded.live.group}-2", topic, "range")
    consumers.wait_until(newcomer.owned, "a client comes to the new listener")
    config["listeners"] = [plain, secured]
    reloaded.reload(config, "reloaded")  # its connections end, and no others
    newcomer.kill()


def test_what_can_not_be_reloaded_changes_nothing(reloaded: Reloaded):
    limits = {**reloaded.config["limits"], "max_connections": 100}

    def changed(**sections: object) -> Config:
        return {**copy.deepcopy(reloaded.config), "limits": limits, **sections}

    workers = reloaded.config["workers"]
    assert reloaded.refuse(changed(workers=3)) == [
        f"workers: {workers} -> 3: needs a restart: ports are shared by their number"
    ]
    missing = changed()
    missing["listeners"][1]["tls"]["certificate"] = "gone.pem"
    (problem,) = reloaded.refuse(missing)
    assert re.match(r".*epochgate\.yaml:\d+:\d+: listeners\[1\]\.tls\.certificate: .*gone\.pem", problem)
    (problem,) = reloaded.refuse(changed(limits={"max_connections": "many"}))
    assert re.match(r".*epochgate\.yaml:\d+:\d+: limits\.max_connections: expected a whole number", problem)
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        taken = changed()
        taken["listeners"].append({**taken["listeners"][0], "port": port, "nodes": {"0": 0}})
        (problem,) = reloaded.refuse(taken)
        assert f"can't listen on {LOOPBACK}:{port}: the port is taken by another process" in problem
    (free,) = free_ports(1)
    nobody = {"bootstrap": [f"{LOOPBACK}:{free}"], "connect_timeout_s": 1}
    (problem,) = reloaded.refuse(changed(upstream=nobody))
    assert "`upstream`" in problem
    assert "not valid YAML" in reloaded.refuse({}, text="upstream: [")[0]
