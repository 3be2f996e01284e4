"""The table of commands: what it says of a function is true, and calling one command loads no other."""

import subprocess
import sys

import pytest

from proxy.cli.table import COMMANDS
from tests.proxy.console.commands import leaves

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
    program = "import sys, proxy.cli.run, proxy.groups.shadowing; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = [name.split(".") for name in done.stdout.split()]
    assert {name[1] for name in names if name[0] == "coordinator" and len(name) > 1} == OF_SHADOW
    assert {name[1] for name in names if name[0] == "pipeline" and len(name) > 1} == {"rules"}
    assert not {"demo", "exporter", "workers"} & {
        name[1] for name in names if name[0] == "proxy" and len(name) > 1
    }


@pytest.mark.parametrize("module", ["proxy.cli.run", "proxy.cli.preflight", "proxy.cli.exporter"])
def test_no_native_library_of_kafka_is_loaded_where_brokers_answers_could_end_the_process(module):
    """librdkafka runs in child processes; that a serving process goes without is in test_metadata_without_names too."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.split(".")[0] == "confluent_kafka"]
