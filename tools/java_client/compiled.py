"""Compiles the Java drivers; `command` returns how to run one of them."""

import subprocess
from pathlib import Path

from tools.kafka import extra_jars, jars
from tools.kafka.broker import LOG_SETTINGS
from tools.maven import Say

HERE = Path(__file__).parent
CONSUMER = HERE / "ConsumerDriver.java"
PRODUCER = HERE / "ProducerDriver.java"
SHARE_CONSUMER = HERE / "ShareConsumerDriver.java"
"""Needs Kafka 4.1 or newer."""
SHARE_THROUGHPUT = HERE / "ShareThroughput.java"
"""For `make bench`."""
JMX_READER = HERE / "JmxReader.java"
SAMPLED_STATS = HERE / "SampledStats.java"
SHARE_BATCHES = HERE / "ShareBatches.java"
"""Needs Kafka 4.1 or newer too."""
STREAMS = HERE / "StreamsDriver.java"
"""Needs Kafka 4.2 or newer."""
BUILD = jars.ROOT / "build" / "java_client"


def ensure_compiled(
    version: str = jars.DEFAULT_VERSION, source: Path = CONSUMER, *, say: Say = print
) -> Path:
    """Compile once and return the folder of the classes. Raises jars.KafkaUnavailableError without JDK or jars."""
    jars.check_java()
    jars.ensure_jars(version, say=say)
    if source == STREAMS:
        extra_jars.ensure(extra_jars.Part.STREAMS, version, say=say)
    return compile_once(source, BUILD / version, _libraries(version, source))


def compile_once(source: Path, classes: Path, libraries: str) -> Path:
    """Compile a driver against these libraries, unless it is compiled; returns the folder of its classes.

    Raises jars.KafkaUnavailableError without a JDK.
    """
    done = classes / f"{source.stem}.class"
    if not done.exists() or done.stat().st_mtime < source.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        compiler = jars.java_home_program("javac")
        command = [compiler, "-cp", libraries, "-sourcepath", str(HERE), "-d", str(classes), str(source)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile against {libraries}:\n{answer.stderr}")
    return classes


def command(version: str, log: Path, source: Path = CONSUMER) -> list[str]:
    """Return the command line of one client, whose own log goes to `log`. Call `ensure_compiled` first."""
    return run(f"{BUILD / version}:{_libraries(version, source)}", log, source)


def run(classpath: str, log: Path, source: Path, heap: str = "-Xmx128m") -> list[str]:
    """Return the command line of a compiled driver."""
    return [
        jars.java_home_program("java"),
        heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Depochgate.log={log}",
        "-cp", classpath, source.stem,
    ]  # fmt: skip


def _libraries(version: str, source: Path) -> str:
    libraries = jars.classpath(version)
    if source != STREAMS:
        return libraries
    return f"{libraries}:{extra_jars.folder(extra_jars.Part.STREAMS, version)}/*"
