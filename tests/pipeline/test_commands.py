"""The command line without Spark: what is missing is said in one line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline import spark
from pipeline.errors import PipelineError
from proxy.cli import command_line
from proxy.runtime.exit_codes import ExitCode


def test_without_java_a_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    answer = CliRunner().invoke(command_line(), ["pipeline", "report", "--out", "x.html", "--audit", "."])
    assert answer.exit_code == ExitCode.FAILED
    assert "Java is missing: no java on PATH, and JAVA_HOME is not set" in answer.output


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=r"Java 17 or newer is needed by Spark, but .* says 11"):
        spark.check_java()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pipeline", "report", "--out", "x"], "nothing to report"),
        (["pipeline", "readiness", "--out", "x"], "give either --capture or --from"),
        (
            ["pipeline", "readiness", "--out", "x", "--capture", ".", "--allow-assignor", "stream"],
            "stream is Kafka Streams",
        ),
        (["pipeline", "audit", "--out", "x"], "give either --journal, or --from and --topic"),
        (["pipeline", "progress", "--out", "x", "--journal", ".", "--topic", "t"], "give either --journal"),
        (["pipeline", "audit", "--out", "x", "--journal", ".", "--conf", "nonsense"], "expected KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_before_spark_starts(arguments: list[str], said: str) -> None:
    answer = CliRunner().invoke(command_line(), arguments)
    assert answer.exit_code == ExitCode.USAGE
    assert said in answer.output
