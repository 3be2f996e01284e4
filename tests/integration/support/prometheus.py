"""A real Prometheus (Debian's package) that scrapes proxies every second."""

import contextlib
import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.waiting import eventually
from tools.kafka.ports import LOOPBACK, free_ports

_CONFIG = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: epochgate
    static_configs: [{{targets: {targets}}}]
"""


class Prometheus:
    """Asks its HTTP interface; ``url`` is where that is."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> object:
        """The `data` of an answer."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:  # noqa: S310 - our own URL
            return json.load(answer)["data"]

    def ask(self, expression: str) -> list[dict[str, object]]:
        """The result of an instant query."""
        return self.get("query", query=expression)["result"]

    def value(self, expression: str) -> float | None:
        """The only value of an instant query; None if there is none."""
        result = self.ask(expression)
        return float(result[0]["value"][1]) if result else None

    def alerts(self) -> dict[str, str]:
        """State by name of the alerts that are pending or firing."""
        return {alert["labels"]["alertname"]: alert["state"] for alert in self.get("alerts")["alerts"]}


@contextlib.contextmanager
def running_prometheus(
    binary: str, targets: Sequence[str], rules: Path, folder: Path
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped each of ``targets`` (host:port) at least once; stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(rules=rules, targets=json.dumps(targets)))
    (port,) = free_ports(1)
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={LOOPBACK}:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    prometheus = Prometheus(f"http://{LOOPBACK}:{port}")

    def scraped() -> bool:
        with contextlib.suppress(OSError):
            return prometheus.value("count(up == 1)") == len(targets)
        return False

    try:
        eventually(scraped, bool, what="Prometheus has scraped all of them")
        yield prometheus
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder / "data", ignore_errors=True)
