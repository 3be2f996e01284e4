"""The table of commands: what it says of a function is true, and calling one command loads no other."""

import subprocess
import sys

import grimp
import pytest

from proxy.cli.table import COMMANDS
from tests.proxy.cli.commands import leaves

LOADED = """
import sys
from proxy.cli import main
sys.argv = ["epochgate", *{arguments!r}]
try:
    main()
except SystemExit:
    pass
print(*sorted(name for name in sys.modules if name.split(".")[0] in {rooms!r}), file=sys.stderr)
"""
ROOMS = ("protocol_codecs", "translation", "coordinator", "hosting", "proxy", "pipeline")


def loaded(*arguments: str) -> list[str]:
    """The project's modules that a call of the command line loads."""
    program = LOADED.format(arguments=arguments, rooms=ROOMS)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stderr.split()


@pytest.mark.parametrize("words", COMMANDS)
def test_the_summary_is_the_first_sentence_of_the_help(words):
    help_text = leaves()[words].help.split("\n\n")[0]
    assert " ".join(help_text.split()) == COMMANDS[words].summary


def test_every_command_is_in_the_table():
    assert set(leaves()) == set(COMMANDS)


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["--help"], ["policy", "--help"]])
def test_what_prints_a_few_lines_loads_only_the_command_line(arguments):
    names = loaded(*arguments)
    assert {name.split(".")[0] for name in names} == {"proxy"}
    assert len(names) < 12


def test_a_check_of_the_policy_loads_no_other_command_and_no_server(tmp_path):
    (tmp_path / "policy.yaml").write_text("default: observe\n")
    names = loaded("policy", "check", str(tmp_path / "policy.yaml"))
    assert "proxy.cli.policy" in names
    assert not [
        name for name in names if name.startswith(("pipeline.commands", "proxy.demo", "proxy.server.server"))
    ]


OF_SHADOW = {
    "assignors",
    "consumer_groups",
    "errors",
    "image",
    "java_order",
    "modern_group",
    "partitions",
    "uuids",
}
"""What a forecast of assignments needs of the embedded coordinator, which is never for production data otherwise."""


def test_a_serving_proxy_loads_of_other_packages_what_it_needs():
    program = "import sys, proxy.cli.run, proxy.groups.shadow_update; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = [name.split(".") for name in done.stdout.split()]
    assert {name[1] for name in names if name[0] == "coordinator" and len(name) > 1} == OF_SHADOW
    assert {name[1] for name in names if name[0] == "pipeline" and len(name) > 1} == {"rules"}
    assert not {"demo", "exporter", "workers"} & {
        name[1] for name in names if name[0] == "proxy" and len(name) > 1
    }


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Every import in the code, also within functions, but for those that types alone need."""
    rooms = ("proxy", "translation", "protocol_codecs", "hosting", "coordinator", "pipeline")
    return grimp.build_graph(*rooms, include_external_packages=True, exclude_type_checking_imports=True)


def loadable(imports: grimp.ImportGraph, module: str) -> set[str]:
    """All modules that a process may load that has loaded this one, with the packages that they lie in."""
    found, open_ends = set[str](), [module]
    while open_ends:
        name = open_ends.pop()
        if name in found:
            continue
        found.add(name)
        if "." in name:
            open_ends.append(name.rpartition(".")[0])
        open_ends += imports.find_modules_directly_imported_by(name)
    return found


IN_PROCESSES_THAT_SERVE = {
    "proxy.cli.run": "proxy.member_log.driver",
    "proxy.workers.__main__": "proxy.member_log.driver",
    "proxy.cli.exporter": "proxy.groups.lag.asking_process",
    "proxy.cli.preflight": "proxy.preflight.account",
}
"""Where each begins, and a module that it loads when it needs it."""


@pytest.mark.parametrize(("module", "lazy"), IN_PROCESSES_THAT_SERVE.items())
def test_no_native_library_of_kafka_is_loaded_where_brokers_answers_could_end_the_process(
    imports: grimp.ImportGraph, module: str, lazy: str
) -> None:
    """librdkafka runs in child processes; that a serving process goes without is in test_metadata_without_names too."""
    found = loadable(imports, module)
    assert lazy in found
    assert "confluent_kafka" not in found


def test_what_the_children_load_would_be_found(imports: grimp.ImportGraph) -> None:
    for module in (
        "proxy.member_log.log_process",
        "proxy.groups.lag.__main__",
        "proxy.preflight.account_process",
    ):
        assert "confluent_kafka" in loadable(imports, module)
