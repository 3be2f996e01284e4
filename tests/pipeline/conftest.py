"""One Spark session for all tests of the pipeline, and a real Kafka for those that need one."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))  # its `support`: a broker and real clients

from pyspark.sql import SparkSession  # noqa: E402
from support import find_broker  # noqa: E402
from support.broker import Kafka  # noqa: E402
from support.consumers import Consumers  # noqa: E402

from pipeline import spark as sessions  # noqa: E402
from pipeline.errors import PipelineError  # noqa: E402
from tests.pipeline.command_line import SETTINGS  # noqa: E402
from tests.skips import Need, without  # noqa: E402
from tools.delta_lake.jars import DeltaUnavailableError, ensure_delta  # noqa: E402
from tools.maven import MavenError  # noqa: E402
from tools.s3_server import built  # noqa: E402
from tools.spark_connector.jars import ConnectorUnavailableError, ensure_connector  # noqa: E402
from tools.spark_s3.jars import ensure_s3  # noqa: E402


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, few partitions, loopback only."""
    conf = dict(SETTINGS)
    try:
        sessions.check_java()
        jars = list[Path]()
        with contextlib.suppress(ConnectorUnavailableError):  # the one test that needs it says so
            jars += ensure_connector()
        with contextlib.suppress(DeltaUnavailableError):  # the tests that need it say so
            jars += ensure_delta()
        if built.program() is not None:  # only with it are there tests that need these
            with contextlib.suppress(MavenError):
                jars += ensure_s3()
        conf["spark.jars"] = ",".join(map(str, jars))
        session = sessions.start("tests", master="local[2]", conf=conf)
    except PipelineError as error:
        without(Need.KAFKA, error)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A broker of these tests' own: they look at all its groups."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.from_maven())
        except find_broker.NoBrokerError as reason:
            without(Need.KAFKA, f"no Kafka: {reason}")
        yield broker


@pytest.fixture(scope="session")
def consumers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consumers]:
    """Starts consumers as processes, which live as long as the tests."""
    started = Consumers(tmp_path_factory.mktemp("consumers"))
    yield started
    started.end()
