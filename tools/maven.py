"""Fetches jars from Maven Central: the dependencies of a small pom, once, into a folder under build/."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Say = Callable[[str], None]


class MavenError(Exception):
    """The jars cannot be fetched; the message says what is missing and how to get it.

    ``output`` is Maven's output, empty if it did not run.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def ensure_dependencies(
    pom: Path, folder: Path, properties: Mapping[str, str], *, what: str, say: Say = print
) -> Path:
    """Return the folder with the dependencies of a pom, fetched at the first call.

    ``properties`` are passed to the pom, which copies into its property ``jars.directory``. ``what`` names the jars in
    messages. Safe to call from several processes at once: one fetches, the others wait for it. If ``jars.sha256`` lies
    beside the pom, the jars must be those that it lists (as ``sha256sum *.jar`` does).

    :raises MavenError: Maven is missing, cannot reach Maven Central, or does not know the version; or the jars are
        others.
    """
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenError(f"Maven (mvn) is missing: it fetches {what}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_name("fetch.lock")):
        if not folder.is_dir():
            _fetch(maven, pom, folder, properties, what, say)
    return folder


def _fetch(maven: str, pom: Path, folder: Path, properties: Mapping[str, str], what: str, say: Say) -> None:
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    log = folder.with_name("maven.log")
    command = [
        maven, "--batch-mode", "--no-transfer-progress", "--file", str(pom),
        *(f"-D{name}={value}" for name, value in properties.items()),
        f"-Djars.directory={fresh}", "dependency:copy-dependencies",
    ]  # fmt: skip
    say(f"fetching {what} with Maven (once; log: {log})")
    try:
        with log.open("wb") as output:
            run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            code = _wait_saying(run, lambda: f"fetching, {len(list(fresh.glob('*.jar')))} jars so far", say)
        if code != 0:
            said = log.read_text(errors="replace")
            raise MavenError(f"{_why(said)} ({what}; log: {log})", said)
        _check(fresh, pom.with_name("jars.sha256"), what)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _check(folder: Path, sums: Path, what: str) -> None:
    if not sums.exists():
        return
    listed = {name: digest for digest, name in map(str.split, sums.read_text().splitlines())}
    fetched = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.iterdir()}
    if others := sorted(name for name in {*listed, *fetched} if listed.get(name) != fetched.get(name)):
        raise MavenError(f"Maven fetched other files than {sums.name} lists ({what}): {', '.join(others)}")


def _wait_saying(process: subprocess.Popen[bytes], what: Callable[[], str], say: Say) -> int:
    """Wait for `process`, printing `what()` every five seconds."""
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


def _why(said: str) -> str:
    unreachable = re.search(
        r"Could not transfer (?:artifact|metadata) .*|.*was not found in .* during a previous attempt.*", said
    )
    if unreachable:
        return f"Maven Central cannot be reached: {unreachable[0].strip()}"
    errors = re.findall(r"^\[ERROR\] (?!\[Help|To see|Re-run|For more|$)(.*)", said, flags=re.MULTILINE)
    return f"Maven failed: {errors[0] if errors else 'no error line'}"


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
