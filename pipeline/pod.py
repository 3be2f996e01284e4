"""The entry point of the image with Spark: a command of ``epochgate``, or a driver or an executor of spark-submit.

In cluster mode spark-submit starts the driver's pod with the argument ``driver`` and tells it the rest on the command
line; the driver starts pods with the argument ``executor`` and tells them the rest in environment variables (Spark's
"Running Spark on Kubernetes"; `entrypoint.sh` of Spark's own images does the same).
"""

import os
import sys
from collections.abc import Mapping, Sequence

_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION = "SPARK_JAVA_OPT_"
_ASKED_FOR = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


class NotFromSparkError(Exception):
    """A variable is missing that Spark sets in pods that it starts."""


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return what to start for a container's arguments: a program and its arguments.

    :raises NotFromSparkError: a driver or an executor that Spark did not start.
    """
    try:
        match arguments:
            case ["driver", *submitted]:
                return _driver(submitted, environment)
            case ["executor", *_]:
                return _executor(environment)
            case _:
                return ["epochgate", *arguments]
    except KeyError as missing:
        raise NotFromSparkError(
            f"{missing.args[0]} is not set: `{arguments[0]}` is for pods that spark-submit starts"
        ) from None


def _driver(submitted: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    address = environment["SPARK_DRIVER_BIND_ADDRESS"]
    return [
        f"{environment['SPARK_HOME']}/bin/spark-submit",
        "--conf",
        f"spark.driver.bindAddress={address}",
        "--conf",
        f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}",
        "--deploy-mode",
        "client",  # this pod is the driver
        *submitted,
    ]


def _executor(environment: Mapping[str, str]) -> list[str]:
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    numbered = {
        int(name.removeprefix(_JAVA_OPTION)): option
        for name, option in environment.items()
        if name.startswith(_JAVA_OPTION)
    }
    class_path = [
        environment.get("SPARK_CONF_DIR", ""),
        environment.get("SPARK_CLASSPATH", ""),  # spark.executor.extraClassPath
        f"{environment['SPARK_HOME']}/jars/*",
    ]
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *(numbered[number] for number in sorted(numbered)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(filter(None, class_path)),
        _EXECUTOR,
        *(word for option, variable in _ASKED_FOR.items() for word in (option, environment[variable])),
    ]


def main() -> None:
    """Become what was asked for, so that it gets the container's signals."""
    try:
        words = command(sys.argv[1:], os.environ)
    except NotFromSparkError as reason:
        sys.exit(f"error: {reason}")
    os.execvp(words[0], words)  # noqa: S606 - without a shell on purpose


if __name__ == "__main__":
    main()
