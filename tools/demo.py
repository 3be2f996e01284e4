"""`make demo`: starts a Kafka if possible, runs the demo on it, and stops everything again.

Without Java, Maven or Maven Central the demo runs on the embedded coordinator instead, and says why. Arguments are
passed on to `epochgate demo`; with `--record` the tables of a run that passed are kept for docs/tutorial/demo.md.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tools` is not installed

from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster
from tools.markers import replaced

INTERRUPTED = 130
PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial" / "demo.md"
MARKER, FIRST_LINE = "demo run", "What each change cost"


def main() -> int:
    """Run the demo; the exit code is that of `epochgate demo`."""
    signal.signal(signal.SIGTERM, _interrupt)
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        return _demo(arguments)  # no Kafka is needed to say what there is
    try:
        return _on_kafka(arguments)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def _on_kafka(arguments: list[str]) -> int:
    Cluster.stop_orphans(RUN, say=say)
    version = os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION)
    cluster = Cluster(RUN / f"demo-{os.getpid()}", version=version, say=say)
    cluster.save(owner_pid=os.getpid())
    began = time.monotonic()
    try:
        try:
            cluster.start()
        except (jars.KafkaUnavailableError, TimeoutError, RuntimeError) as reason:
            say(f"no real Kafka here: {reason}")
            say("running on the embedded coordinator instead")
            return _demo(["--embedded", *arguments])
        say(f"set-up took {time.monotonic() - began:.0f} s")
        if "--record" in arguments:
            return _record(cluster.bootstrap, version, [one for one in arguments if one != "--record"])
        code = _demo(["--kafka", cluster.bootstrap, *arguments])
        say("stopping Kafka")
        return code
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()


def _demo(arguments: list[str]) -> int:
    """Run the demo in this terminal; the terminal sends it Ctrl-C, and it ends what it has started."""
    demo = subprocess.Popen([sys.executable, "-m", "proxy", "demo", *arguments])
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: demo.send_signal(signal.SIGINT))
    return abs(demo.wait())


def _record(bootstrap: str, version: str, arguments: list[str]) -> int:
    """Run the demo and, if it passes, put its tables into the page."""
    began = time.monotonic()
    command = [sys.executable, "-m", "proxy", "demo", "--plain", "--kafka", bootstrap, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    if done.returncode == 0:
        took_s, load = time.monotonic() - began, os.getloadavg()[1]
        title = (
            f"One run on Kafka {version} in {took_s:.0f} s, on {os.cpu_count()} cores with a load of {load:.0f} from "
            'this and other work (`make demo ARGS="--record"` writes it here):'
        )
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), title, done.stdout), encoding="utf-8")
    return done.returncode


def page(before: str, title: str, output: str) -> str:
    """Return the page with the last part of a demo's output, under a title."""
    tables = output[output.index(FIRST_LINE) :].splitlines()
    block = "\n".join(f"    {line}".rstrip() for line in tables)
    return replaced(before, MARKER, f"{title}\n\n{block}\n")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def say(line: str) -> None:
    """Print progress at once."""
    print(f"demo: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
