"""The examples for the Spark operator and for Airflow fit what they are for, as far as that shows without them."""

import sys
from types import ModuleType, TracebackType
from typing import Any, Self

import jsonschema
import pytest
import yaml
from typer.main import get_command

from proxy.cli import command_line
from proxy.cli.lazy import LazyGroup
from tests.docs import pages
from tests.skips import Need, without
from tools.chart import crds, schemas
from tools.chart.binaries import NoGoError

PAGE = pages.Path("docs/how-to/pipeline-cluster.md")
PARAMETERS = {"application", "application_args", "conn_id", "name", "properties_file"}
"""Those of SparkSubmitOperator's own (apache-airflow-providers-apache-spark 6.3.4) that the example gives."""
OF_EVERY_TASK = {"task_id", "retries", "trigger_rule"}


def text_of(name: str) -> str:
    (file,) = (one for one in pages.steps(PAGE) if isinstance(one, pages.File) and one.name == name)
    return file.text


def parse(arguments: list[str]) -> None:
    """The command line reads it, or raises."""
    command = get_command(command_line())
    context = None
    words = list(arguments)
    while isinstance(command, LazyGroup):
        name = words.pop(0)
        context = command.context_class(command, info_name=name, parent=context)
        command = command.load(name)
    command.parse_args(command.context_class(command, parent=context), words)


def application() -> Any:
    return yaml.safe_load(text_of("spark-application.yaml"))


@pytest.fixture(scope="module")
def schema() -> Any:
    try:
        (definition,) = crds.SPARK_OPERATOR.definitions()
    except NoGoError as reason:
        without(Need.CHART, f"no definition of SparkApplication: {reason}")
    (served,) = definition["spec"]["versions"]
    assert definition["spec"]["names"]["kind"] == "SparkApplication"
    return schemas.strict(served["schema"]["openAPIV3Schema"])


def test_the_operator_takes_the_application(schema: Any) -> None:
    jsonschema.validate(application(), schema)


@pytest.mark.parametrize("wrong", [{"kindOf": "x"}, {"mode": "nowhere"}, {"driver": {"core": 1}}])
def test_a_mistake_in_it_is_found(schema: Any, wrong: dict[str, Any]) -> None:
    changed = application()
    changed["spec"] |= wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, schema)


def test_the_application_starts_a_command_that_there_is() -> None:
    parse(application()["spec"]["arguments"])


class Task:
    """Stands in for SparkSubmitOperator."""

    made: list["Task"]

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.after: list[Task] = []
        self.made.append(self)

    def __rrshift__(self, others: list["Task"]) -> "Task":
        self.after.extend(others)
        return self


class Dag:
    """Stands in for DAG."""

    def __init__(self, name: str, **given: Any) -> None:
        self.given = given

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        pass


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Task]:
    Task.made = []
    names = ["airflow", "providers", "apache", "spark", "operators", "spark_submit"]
    for end in range(1, len(names) + 1):
        monkeypatch.setitem(sys.modules, ".".join(names[:end]), ModuleType(".".join(names[:end])))
    sys.modules[".".join(names)].SparkSubmitOperator = Task  # type: ignore[attr-defined]
    sdk = ModuleType("airflow.sdk")
    sdk.DAG = Dag  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    exec(compile(text_of("epochgate_dag.py"), "epochgate_dag.py", "exec"), {})  # noqa: S102 - the page's own file
    return {one.given["task_id"]: one for one in Task.made}


def test_each_task_of_the_dag_starts_a_command_that_there_is(tasks: dict[str, Task]) -> None:
    assert list(tasks) == ["readiness", "progress", "audit", "report"]
    for one in tasks.values():
        assert one.given.keys() == PARAMETERS | OF_EVERY_TASK
        parse(one.given["application_args"])


def test_the_report_comes_last_whatever_the_audit_found(tasks: dict[str, Task]) -> None:
    assert {one.given["task_id"] for one in tasks["report"].after} == {"readiness", "progress", "audit"}
    assert tasks["report"].given["trigger_rule"] == "all_done"
