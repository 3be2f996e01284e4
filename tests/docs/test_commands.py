"""A test runs every command in the README, in Tutorial and in How-to; where none can, the page says so.

``epochgate`` is asked whether it knows each command and option.
"""

import ast
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from typer.main import get_command

from proxy.cli import command_line
from proxy.cli.lazy import LazyGroup
from tools.chart import render

from . import pages

_PROGRAM = r"(?:^|(?<!deployment)(?<!charts)[/_]|-- )"
"""What stands before a program's name; `deployment/epochgate` and `charts/epochgate` are none."""
_EPOCHGATE = r"(\.venv/bin/)?epochgate"
ELSEWHERE = {
    rf"make demo.*|{_EPOCHGATE} demo( --kafka \S+)?": "test_the_demo_passes_and_leaves_nothing_behind",
    rf"{_EPOCHGATE} demo --story share": "test_the_story_of_a_share_group_passes",
    r"make (setup|test)": "test_a_target_of_make_is_there",
    rf"{_EPOCHGATE} (run|status)( .*)?": "test_the_tutorial_moves_a_group_there_and_back",
    rf"{_EPOCHGATE} (config|policy) check (?!readiness/)\S+": "test_the_files_of_a_page_are_good",
    rf"{_EPOCHGATE} policy check readiness/\S+": "test_the_proxy_takes_the_policy_of_each_wave",
    rf"{_EPOCHGATE} (approve|pause|resume|rollback) .*": (
        "test_a_move_is_approved_paused_and_rolled_back_and_stays_so_after_a_restart"
    ),
    rf"{_EPOCHGATE} preflight .*": "test_nothing_is_found_on_fifty_healthy_groups",
    rf"{_EPOCHGATE} policy from-readiness .*": "test_each_group_of_a_generated_wave_is_moved_and_no_other",
    rf"{_EPOCHGATE} policy plan \S+": "test_the_command_asks_the_admin_port_and_prints_the_plan",
    rf"{_EPOCHGATE} (capture|pipeline readiness) .*": "test_groups_equal_what_the_admin_client_says",
    rf"{_EPOCHGATE} pipeline progress .*": "test_killed_and_started_again_equals_the_batch",
    rf"{_EPOCHGATE} pipeline audit (?!.*(s3a:|delta|--incremental)).*": "test_findings_equal_the_checkers",
    rf"{_EPOCHGATE} pipeline audit .*s3a:.*": "test_the_audit_of_a_bucket_is_that_of_a_folder",
    rf"{_EPOCHGATE} pipeline audit .*--format delta .*": "test_three_days_in_delta_lake_equal_a_full_run",
    rf"{_EPOCHGATE} pipeline audit .*--incremental": "test_two_days_equal_a_full_run_and_the_checker",
    rf"{_EPOCHGATE} pipeline tables show .*": "test_findings_equal_the_checkers",
    rf"{_EPOCHGATE} pipeline tables compact .*": "test_a_run_goes_on_from_what_is_compacted",
    rf"{_EPOCHGATE} pipeline tables vacuum .*": (
        "test_what_was_replaced_within_the_hours_that_are_kept_can_be_read_and_what_holds_always"
    ),
    rf"{_EPOCHGATE} exporter .*": "test_each_kind_of_group_has_the_series_of_kafka_exporter",
    rf"{_EPOCHGATE} verify .*": "test_the_exit_code_says_the_verdict",
    rf"{_EPOCHGATE} pipeline report .*": "test_the_page_tells_what_was_found_and_needs_nothing_else",
    r"pip install .*": "test_an_extra_that_is_installed_is_declared",
    r"docker build .*": "test_the_commands_install_the_entry_point",
    r"helm (install|upgrade) .*": "test_helm_renders_what_it_would_install",
    r"helm uninstall .*": "test_every_command_of_the_walkthrough",
    r"helm test .*": "test_a_group_goes_through_and_the_policy_changes_without_a_restart",
    r"spark-submit --master k8s.*|for file in spark\.properties .*": (
        "test_the_pipeline_in_the_cluster_equals_one_outside"
    ),
    r"spark-submit .* --properties-file s3\.properties .*": (
        "test_every_submitted_command_gives_the_tables_of_a_local_run"
    ),
    r"spark-submit .* --properties-file kafka-s3\.properties .*": (
        "test_brokers_with_tls_and_a_login_an_s3_server_and_a_master_with_two_workers_together"
    ),
    r"kadmin -q \"(addprinc -randkey|ktadd -k \S+) \S+\"": (
        "test_a_client_with_a_ticket_for_the_proxys_host_works_in_a_translated_group"
    ),
    r"epochgate config diff epochgate\.yaml new\.yaml": "test_what_needs_a_restart_comes_first",
    r"epochgate config diff http://\S+ new\.yaml": "test_a_file_is_compared_with_what_is_in_force",
    r"kubectl .*": "test_what_kubectl_names_is_in_the_manifests",
}
"""The test that runs the command, or what the command calls."""

NEVER_RUN = {
    r"kafka-(acls|configs|delegation-tokens|topics)\.sh .*": "Kafka's own shell scripts run in no test here",
    r"docker push .*|helm rollback .*": "No test here pushes an image or rolls a release back",
    r"PYSPARK_PYTHON=\S+ spark-submit .*|venv-pack .*": "Nobody has run these jobs on YARN",
}
"""Needs a cluster, a registry or Kafka's distribution, which no test has. The page says so, in these words."""

FOLLOWED = tuple(
    pages.Path("docs/tutorial") / name
    for name in ("first-group.md", "kubernetes.md", "kubernetes-pipeline.md")
)
"""Tutorials, which a test follows from their first command to their last."""
ALL = [(page, line) for page in pages.pages() for line in pages.commands(page)]
STARTS_EPOCHGATE = rf"{_PROGRAM}epochgate(?:_pipeline)?(?:\.py)? "
"""spark-submit starts it too, by the name of a file."""
OF_EPOCHGATE = [(page, line) for page, line in ALL if re.search(STARTS_EPOCHGATE, line)]


def named(cases):
    return pytest.mark.parametrize(
        ("page", "line"), cases, ids=[f"{page.stem}: {line[:60]}" for page, line in cases]
    )


def test_pages_have_commands():
    assert len(ALL) > 30
    assert len(OF_EPOCHGATE) > 15


@named([(page, line) for page, line in ALL if page not in FOLLOWED])
def test_a_command_is_run_by_a_test_or_the_page_says_that_none_runs_it(page, line):
    tests = [test for pattern, test in ELSEWHERE.items() if re.fullmatch(pattern, line)]
    said = [words for pattern, words in NEVER_RUN.items() if re.fullmatch(pattern, line)]
    assert len(tests) + len(said) == 1, f"{page}: no test runs `{line}`"
    text = " ".join((pages.ROOT / page).read_text(encoding="utf-8").split())
    assert all(words in text for words in said), f"{page} does not say that nobody has run `{line}`"


def test_the_tests_that_are_named_exist():
    defined = {
        node.name
        for file in (pages.ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert set(ELSEWHERE.values()) <= defined, set(ELSEWHERE.values()) - defined


@named(OF_EPOCHGATE)
def test_epochgate_knows_the_command_and_its_options(page, line):
    words = re.split(STARTS_EPOCHGATE, line, maxsplit=1)[1]
    arguments = shlex.split(re.sub(r"\$\([^)]*\)", "x", re.split(r" > |; ", words)[0]))
    command = get_command(command_line())
    context = None
    while isinstance(command, LazyGroup):
        name = arguments.pop(0)
        context = command.context_class(command, info_name=name, parent=context)
        assert name in command.commands, f"{page}: there is no command {name}"
        command = command.load(name)
    context = command.context_class(command, parent=context)
    command.parse_args(context, [one for one in arguments if one != "&"])


@pytest.mark.parametrize(
    "page", [page for page in pages.pages() if any(" check " in one for one in pages.commands(page))], ids=str
)
def test_the_files_of_a_page_are_good(page, tmp_path):
    """The page's own files, or the README's where it has none: each is checked as the page says."""
    for source in (pages.Path("README.md"), page):
        for step in pages.steps(source):
            if isinstance(step, pages.File):
                file = tmp_path / step.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(step.text, encoding="utf-8")
    for line in pages.commands(page):
        if re.search(r"epochgate (config|policy) check (?!readiness/)", line):
            arguments = shlex.split(line)[1:]
            command = [sys.executable, "-m", "proxy", *arguments]
            environment = os.environ | {"PYTHONPATH": str(pages.ROOT)}
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr


@named([(page, line) for page, line in ALL if line.startswith("make ")])
def test_a_target_of_make_is_there(page, line):
    pages.make_plans(line.split()[1])


def test_make_help_lists_a_score_of_targets():
    shown = subprocess.run(
        ["make", "help"], cwd=pages.ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert 15 <= len(re.findall(r"^  make ", shown, re.MULTILINE)) <= 25
    assert all(
        f" {name} " in f" {' '.join(shown.split())} " for name in ("soak", "rolling-restart", "verify-seeds")
    )


@named([(page, line) for page, line in ALL if line.startswith("pip install ")])
def test_an_extra_that_is_installed_is_declared(page, line):
    project = (pages.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in re.findall(r"\[(\w+)\]", line):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


@pytest.fixture(scope="module")
def manifests(tmp_path_factory, helm):
    """The chart with the values of the page about Kubernetes, as its `helm upgrade` takes them: all in one file."""
    folder = tmp_path_factory.mktemp("values")
    text = (pages.ROOT / "docs" / "how-to" / "kubernetes.md").read_text(encoding="utf-8")
    values: dict[str, object] = {}
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        values |= yaml.safe_load(block)
    (folder / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return folder


@named(
    [(page, line) for page, line in ALL if page not in FOLLOWED and re.match("helm (install|upgrade)", line)]
)
def test_helm_renders_what_it_would_install(page, line, manifests):
    words = shlex.split(line)
    assert words[2:4] == ["epochgate", "charts/epochgate"], line
    arguments = [str(manifests / one) if one == "values.yaml" else one for one in words[4:]]
    rendered = render.documents(render.helm("template", "epochgate", str(render.CHART), *arguments))
    assert any(manifest["kind"] == "Deployment" for manifest in rendered)


@named([(page, line) for page, line in ALL if page not in FOLLOWED and line.startswith("kubectl ")])
def test_what_kubectl_names_is_in_the_manifests(page, line, manifests):
    spark = "pipeline.spark.enabled=true,pipeline.outputClaim=reports"
    rendered = render.documents(render.template("--values", str(manifests / "values.yaml"), "--set", spark))
    told = render.one(rendered, "ConfigMap", "epochgate-spark")["data"]
    rendered.append(yaml.safe_load(told["client.yaml"]))  # what the page has applied
    there = {f"{manifest['kind'].lower()}/{manifest['metadata']['name']}" for manifest in rendered}
    asked = set(re.findall(r"\b(?:service|deployment|configmap|pod)/\S+", line))
    assert asked
    assert asked <= there, asked - there
