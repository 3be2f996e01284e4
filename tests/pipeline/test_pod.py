"""What the image with Spark starts, by a container's arguments and environment."""

import os
import subprocess
import sys

import pytest

from pipeline.pod import NotFromSparkError, command

IMAGE = {"SPARK_HOME": "/spark", "JAVA_HOME": "/java"}
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "audit-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}


def test_everything_else_is_a_command_of_epochgate() -> None:
    assert command(["pipeline", "audit", "--out", "a"], {}) == [
        "epochgate",
        "pipeline",
        "audit",
        "--out",
        "a",
    ]
    assert command([], {}) == ["epochgate"]


def test_a_driver_submits_to_itself() -> None:
    words = command(
        ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///a.py", "x"],
        IMAGE | {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.5"},
    )
    assert words == [
        "/spark/bin/spark-submit",
        "--conf", "spark.driver.bindAddress=10.0.0.5",
        "--conf", "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.5",
        "--deploy-mode", "client",
        "--properties-file", "/opt/spark/conf/spark.properties", "local:///a.py", "x",
    ]  # fmt: skip


def test_an_executor_gets_what_its_driver_put_into_the_environment() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in (10, 2, 0)}
    words = command(["executor"], IMAGE | EXECUTOR | options | {"SPARK_CLASSPATH": "/more/*"})
    assert words[:4] == ["/java/bin/java", "-Dnumber=0", "-Dnumber=2", "-Dnumber=10"]
    assert words[4:9] == [
        "-Xms1024m", "-Xmx1024m", "-cp", "/opt/spark/conf:/more/*:/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ]  # fmt: skip
    told = dict(zip(words[9::2], words[10::2], strict=True))
    assert told == {
        "--driver-url": "spark://CoarseGrainedScheduler@driver:7078",
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--podName": "audit-exec-1",
        "--resourceProfileId": "0",
    }


@pytest.mark.parametrize("kind", ["driver", "executor"])
def test_a_pod_that_spark_did_not_start_says_so(kind: str) -> None:
    with pytest.raises(
        NotFromSparkError, match=rf"is not set: `{kind}` is for pods that spark-submit starts"
    ):
        command([kind], IMAGE)


def test_the_entry_point_becomes_the_command() -> None:
    folder = os.path.dirname(sys.executable)  # noqa: PTH120 - it is a part of PATH
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.pod", "--version"],
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("epochgate "), done.stderr
    refused = subprocess.run(
        [sys.executable, "-m", "pipeline.pod", "executor"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stderr.startswith("error: ")) == (1, True)
