"""The broker's jars: found in build/, or fetched by Maven from the small pom beside this file."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "kafka"
POM = Path(__file__).with_name("pom.xml")
DEFAULT_VERSION = "4.3.1"
OLDEST_JAVA = 17

Say = Callable[[str], None]


class KafkaUnavailableError(Exception):
    """No broker can be had here; the message says what is missing and what would help."""


def java_home_program(name: str) -> str:
    """Path of a JDK program (`java`, `javac`): $JAVA_HOME first, then PATH.

    Raises KafkaUnavailableError if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise KafkaUnavailableError(
            f"{name} is missing: Kafka 4 needs a JDK {OLDEST_JAVA} or newer, on PATH or under JAVA_HOME"
        )
    return found


def check_java() -> str:
    """Path of a `java` that is new enough for a Kafka 4 broker, or KafkaUnavailableError."""
    java = java_home_program("java")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    said = answer.stderr + answer.stdout
    version = re.search(r'version "(\d+)', said)
    if answer.returncode != 0 or version is None:
        raise KafkaUnavailableError(f"{java} does not run: {said.strip() or f'exit {answer.returncode}'}")
    if int(version[1]) < OLDEST_JAVA:
        raise KafkaUnavailableError(f"{java} is Java {version[1]}: Kafka 4 needs {OLDEST_JAVA} or newer")
    return java


def classpath(version: str) -> str:
    """The class path of a fetched version (see `ensure_jars`)."""
    return f"{BUILD / version / 'libs'}/*"


def ensure_jars(version: str = DEFAULT_VERSION, *, say: Say = print) -> Path:
    """The folder with every jar that a broker of `version` needs, fetched by Maven at the first call.

    Safe to call from several processes at once. Raises KafkaUnavailableError.
    """
    libs = BUILD / version / "libs"
    if libs.is_dir():
        return libs
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError(f"Maven (mvn) is missing: it fetches the jars of Kafka {version}")
    java_home_program("java")
    libs.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(libs.parent / "fetch.lock"):
        if not libs.is_dir():
            _fetch(maven, version, libs, say)
    return libs


def _fetch(maven: str, version: str, libs: Path, say: Say) -> None:
    fresh = libs.with_name(f"libs.{os.getpid()}")
    log = libs.with_name("maven.log")
    command = [
        maven, "--batch-mode", "--no-transfer-progress", "--file", str(POM),
        f"-Dkafka.version={version}", f"-Djars.directory={fresh}", "dependency:copy-dependencies",
    ]  # fmt: skip
    say(f"fetching the jars of Kafka {version} with Maven (about 45 MB the first time; log: {log})")
    try:
        with log.open("wb") as output:
            maven_run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            code = _wait_saying(
                maven_run, lambda: f"fetching, {len(list(fresh.glob('*.jar')))} jars so far", say
            )
        if code != 0:
            raise KafkaUnavailableError(_why_maven_failed(version, log))
        fresh.rename(libs)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _wait_saying(process: subprocess.Popen[bytes], what: Callable[[], str], say: Say) -> int:
    """Wait for `process`, saying `what()` every five seconds."""
    started = time.monotonic()
    while True:
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            say(f"{what()} ({time.monotonic() - started:.0f} s)")
        except BaseException:
            process.terminate()
            process.wait()
            raise


def _why_maven_failed(version: str, log: Path) -> str:
    text = log.read_text(errors="replace")
    if re.search(rf"Could not find artifact org\.apache\.kafka:kafka_2\.13:jar:{re.escape(version)}\b", text):
        return f"Kafka {version} is not on Maven Central (wrong KAFKA_VERSION?)"
    unreachable = re.search(
        r"Could not transfer (?:artifact|metadata) .*|.*was not found in .* during a previous attempt.*", text
    )
    if unreachable:
        reason = unreachable[0].strip()
        return f"Maven Central cannot be reached, so there are no jars of Kafka {version}: {reason}"
    errors = re.findall(r"^\[ERROR\] (?!\[Help|To see|Re-run|For more|$)(.*)", text, flags=re.MULTILINE)
    return f"Maven could not fetch Kafka {version}: {errors[0] if errors else 'no error line'} (log: {log})"


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
