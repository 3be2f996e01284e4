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
scrape_configs: {jobs}
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

    def ask(self, expression: str, at: float | None = None) -> list[dict[str, object]]:
        """The result of an instant query, now or at a time (seconds since 1970)."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        return self.get("query", query=expression, **when)["result"]

    def value(self, expression: str) -> float | None:
        """The only value of an instant query; None if there is none."""
        result = self.ask(expression)
        return float(result[0]["value"][1]) if result else None

    def alerts(self) -> dict[str, str]:
        """State by name of the alerts that are pending or firing."""
        return {alert["labels"]["alertname"]: alert["state"] for alert in self.get("alerts")["alerts"]}


@contextlib.contextmanager
def running_prometheus(
    binary: str, targets: Sequence[str], rules: Path, folder: Path, exporters: Sequence[str] = ()
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped each of ``targets`` (host:port) at least once; stopped at the end.

    ``exporters`` are targets too, of a job of their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    jobs = [
        {"job_name": name, "static_configs": [{"targets": list(those)}]}
        for name, those in {"epochgate": targets, "epochgate-exporter": exporters}.items()
        if those
    ]
    config.write_text(_CONFIG.format(rules=rules, jobs=json.dumps(jobs)))
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
            return prometheus.value("count(up == 1)") == len(targets) + len(exporters)
        return False

    try:
        eventually(scraped, bool, what="Prometheus has scraped all of them")
        yield prometheus
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder / "data", ignore_errors=True)
