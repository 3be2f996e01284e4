"""The page's spark-submit lines: on a real S3 server, on brokers with TLS and SCRAM, on a master with two workers."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from proxy.runtime.exit_codes import ExitCode
from tests.docs import pages
from tests.pipeline import standalone
from tests.pipeline.command_line import JAVA_OPTIONS, SETTINGS
from tests.pipeline.on_disk import tables
from tests.pipeline.s3 import S3
from tests.pipeline.several_commands import run
from tests.pipeline.test_file_systems import prepared
from tests.pipeline.test_killed_on_s3 import command
from tests.pipeline.test_on_s3 import jars, s3
from tests.pipeline.test_secured_kafka import MOVES, Ran, connects, plain, rows, secured, tls
from tools.kafka.cluster import Cluster
from tools.kafka.tls_files import TlsFiles
from tools.spark_connector.jars import ensure_connector

__all__ = ["jars", "plain", "s3", "secured", "tls"]  # fixtures

PAGE = Path("docs/how-to/pipeline-cluster.md")
CONNECT = Path("docs/how-to/pipeline.md")
FROM_FILES, FROM_BROKERS = "s3.properties", "kafka-s3.properties"
SMALL = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
pytestmark = pytest.mark.timeout(1_800)


def lines(properties: str) -> dict[str, str]:
    """The page's lines with this file of properties, by the command that they submit."""
    found = [line for line in pages.commands(PAGE) if f"--properties-file {properties} " in line]
    return {line.split(" pipeline ")[1].split()[0]: line for line in found}


def file_of(page: Path, name: str) -> str:
    """The text of a file of a page."""
    (found,) = {one.text for one in pages.steps(page) if isinstance(one, pages.File) and one.name == name}
    return found


def properties_of(name: str) -> dict[str, str]:
    """The settings of a file of the page."""
    return dict(re.findall(r"^([\w.]+)=(.*)$", file_of(PAGE, name), re.MULTILINE))


def write(folder: Path, name: str, settings: Mapping[str, str]) -> None:
    """Write the page's Python file, and its file of properties with these instead: all that it names must be there."""
    assert properties_of(name).keys() - {"spark.jars.packages"} <= settings.keys()
    (folder / "epochgate_pipeline.py").write_text(file_of(PAGE, "epochgate_pipeline.py"), encoding="utf-8")
    given = SETTINGS | SMALL | dict(settings)
    (folder / name).write_text("".join(f"{key}={value}\n" for key, value in given.items()), encoding="utf-8")


def submit(line: str, folder: Path, places: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the page; what differs is where the servers and the bucket's objects are."""
    for here, there in places.items():
        line = line.replace(here, there)
    home = Path(pyspark.__file__).parent
    own = {
        "SPARK_HOME": str(home),
        "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(pages.ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def assert_ended(done: subprocess.CompletedProcess[str], code: int) -> None:
    assert done.returncode == code, f"{done.args}: {done.returncode}: {done.stderr[-3000:]}"


def test_the_page_submits_every_command() -> None:
    assert list(lines(FROM_FILES)) == ["readiness", "progress", "audit", "report"]
    assert list(lines(FROM_BROKERS)) == ["readiness", "progress", "audit"]


@pytest.mark.long
def test_every_submitted_command_gives_the_tables_of_a_local_run(
    s3: S3, jars: dict[str, str], tmp_path: Path
) -> None:
    prepared(tmp_path / "here")
    here = str(tmp_path / "here")
    run([command(name, here, here) for name in ("ready", "progress", "audit")])
    for name in ("capture", "journal"):
        s3.put(tmp_path / "here" / name, f"files/{name}")
    write(tmp_path, FROM_FILES, s3.settings | jars)

    with standalone.cluster(tmp_path, memory="1g", java_options=JAVA_OPTIONS) as master:
        places = {"spark://spark:7077": master, "s3a://bucket/": "s3a://bucket/files/"}
        for name, line in lines(FROM_FILES).items():
            assert_ended(
                submit(line, tmp_path, places),
                ExitCode.PROBLEM_FOUND if name == "audit" else ExitCode.SUCCESS,
            )
        in_cluster = lines(FROM_FILES)["audit"].replace(
            "spark-submit ", "spark-submit --deploy-mode cluster "
        )
        refused = submit(in_cluster, tmp_path, places)

    assert "Cluster deploy mode is currently not supported for python applications" in refused.stderr
    (s3.bucket / "files" / "readiness").rename(s3.bucket / "files" / "ready")
    for name in ("ready", "progress", "audit"):
        assert tables(s3.bucket / "files", name) == tables(tmp_path / "here", name), name
    assert (s3.bucket / "files" / "report.html").exists()


@pytest.mark.long
@pytest.mark.kafka
def test_brokers_with_tls_and_a_login_an_s3_server_and_a_master_with_two_workers_together(
    secured: Cluster,
    tls: TlsFiles,
    plain: Ran,
    spark: SparkSession,
    s3: S3,
    jars: dict[str, str],
    tmp_path: Path,
) -> None:
    """All commands by the pages' lines find what they find locally, by a listener that wants to know nothing."""
    connects(tmp_path, tls)
    own = json.loads((tmp_path / "kafka.yaml").read_text())["kafka"]
    assert all(f"  {key}: " in file_of(CONNECT, "kafka.yaml") for key in own)
    shared = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "of-this-test",
        "spark.network.crypto.enabled": "true",
    }
    with_connector = {"spark.jars": ",".join([jars["spark.jars"], *map(str, ensure_connector())])}
    write(tmp_path, FROM_BROKERS, s3.settings | with_connector | shared)
    shutil.copy(tmp_path / FROM_BROKERS, tmp_path / FROM_FILES)
    of_daemons = " ".join([JAVA_OPTIONS, *(f"-D{key}={value}" for key, value in shared.items())])

    with standalone.cluster(tmp_path, memory="1g", java_options=of_daemons) as master:
        places = {
            "spark://spark:7077": master,
            "s3a://bucket/": "s3a://bucket/together/",
            "kafka-0:9093": secured.bootstrap_of("SASL_TLS"),
            "epochgate-journal": MOVES,
        }
        (capture,) = [
            one for one in pages.commands(CONNECT) if "epochgate capture" in one and "--kafka" in one
        ]
        captured = submit(capture, tmp_path, places)
        assert_ended(captured, ExitCode.SUCCESS)
        for line in [*lines(FROM_BROKERS).values(), lines(FROM_FILES)["report"]]:
            assert_ended(submit(line, tmp_path, places), ExitCode.SUCCESS)

    assert plain.captured in captured.stdout
    key, secret = s3.environment.values()
    of_s3 = s3.settings | {"fs.s3a.access.key": key, "fs.s3a.secret.key": secret}
    for name, value in of_s3.items():
        spark.conf.set(name.removeprefix("spark.hadoop."), value)
    assert rows(spark, "s3a://bucket/together") == plain.tables
    assert (s3.bucket / "together" / "report.html").exists()
