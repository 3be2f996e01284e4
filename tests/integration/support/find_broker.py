"""Where the tests' broker comes from: the environment, a Docker engine, or Maven's jars, in this order."""

import contextlib
import gc
import os
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.broker import Kafka
from tools.kafka import jars, probe, settings
from tools.kafka.cluster import RUN, Cluster
from tools.kafka.ports import LOOPBACK, free_ports

BOOTSTRAP = "EPOCHGATE_TEST_BOOTSTRAP"
VERSION = "KAFKA_VERSION"
START_TIMEOUT_S = 120.0


class NoBrokerError(Exception):
    """Not available in this way; the message is a reason that a person understands."""


def wanted_version() -> str:
    """The Kafka version that is started when none is given (KAFKA_VERSION, as with make)."""
    return os.environ.get(VERSION, jars.DEFAULT_VERSION)


@contextlib.contextmanager
def any_broker() -> Iterator[Kafka]:
    """The first way that works. Raises NoBrokerError with the reasons of all ways."""
    reasons: list[str] = []
    for way in (from_environment, from_docker, from_maven):
        with contextlib.ExitStack() as stack:
            try:
                kafka = stack.enter_context(way())
            except NoBrokerError as reason:
                reasons.append(str(reason))
            else:
                yield kafka
                return
    raise NoBrokerError("; ".join(reasons))


@contextlib.contextmanager
def from_environment() -> Iterator[Kafka]:
    """A broker that somebody else runs. One that was named but does not answer is an error, not a skip."""
    bootstrap = os.environ.get(BOOTSTRAP)
    if not bootstrap:
        raise NoBrokerError(f"{BOOTSTRAP} is not set")
    _wait_until_it_answers(bootstrap, timeout_s=60)
    yield Kafka(bootstrap, source=BOOTSTRAP, version=os.environ.get(VERSION, "unknown"))


@contextlib.contextmanager
def from_docker() -> Iterator[Kafka]:
    """The image apache/kafka on a Docker engine."""
    engine_error = _why_no_docker()
    if engine_error is not None:
        raise NoBrokerError(f"no Docker engine ({engine_error})")
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - needs an engine at import

    version, (port,) = wanted_version(), free_ports(1)
    container = DockerContainer(f"apache/kafka:{version}").with_envs(**_as_environment(port))
    # with_bind_ports would listen on every address; docker takes an address here, its wrapper's type does not
    container.ports[f"{port}/tcp"] = (LOOPBACK, port)  # type: ignore[assignment]
    with container:
        bootstrap = f"{LOOPBACK}:{port}"
        _wait_until_it_answers(bootstrap, timeout_s=START_TIMEOUT_S)
        yield Kafka(bootstrap, source="docker", version=version)


@contextlib.contextmanager
def from_maven() -> Iterator[Kafka]:
    """A broker from Maven's jars, for this run of the tests only."""
    # On a starved machine the broker's own heartbeats come late too; nobody stops this one.
    patience = {"broker.session.timeout.ms": "60000"}
    with own_cluster(f"tests-{uuid.uuid4().hex[:8]}", overrides=patience) as cluster:
        yield Kafka(cluster.bootstrap, source="maven", version=cluster.version)


@contextlib.contextmanager
def own_cluster(name: str, **options: Any) -> Iterator[Cluster]:
    """A cluster that a test may stop, kill and start again. Raises NoBrokerError."""
    Cluster.stop_orphans(RUN)
    cluster = Cluster(Path(RUN) / name, **{"version": wanted_version(), **options})
    cluster.save(owner_pid=os.getpid())
    try:
        cluster.start()
        yield cluster
    except jars.KafkaUnavailableError as error:
        raise NoBrokerError(f"no Maven broker ({error})") from error
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()


def _as_environment(port: int) -> dict[str, str]:
    values = {
        **settings.for_tests(brokers=1),
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.voters": "1@localhost:9099",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": f"PLAINTEXT://:{port},CONTROLLER://localhost:9099",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    return {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in values.items()}


def _why_no_docker() -> str | None:
    import docker  # type: ignore[import-untyped]  # noqa: PLC0415 - only when it is asked for

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # its sockets stay open when it finds no engine
        try:
            with contextlib.closing(docker.from_env(timeout=5)) as client:
                client.ping()
        except docker.errors.DockerException as error:
            return str(error)
        finally:
            gc.collect()
    return None


def _wait_until_it_answers(bootstrap: str, *, timeout_s: float) -> None:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if probe.ask(host, int(port)).controller_id >= 0:
                probe.find_coordinator(host, int(port), "epochgate-warm-up")
                return
        except probe.NotReadyError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
