"""What `epochgate run` loads of other projects: not what few configurations need."""

import subprocess
import sys

import proxy

LOADED_WHEN_NEEDED = {
    "argparse",
    "confluent_kafka",
    "crc32c",
    "cryptography",
    "importlib.metadata",
    "jinja2",
    "pydantic",
    "pygments",
    "rich",
    "statistics",
    "sysconfig",
    "zoneinfo",
}
PROGRAM = "import sys, proxy.cli.run; print(*sys.modules)"


def test_run_loads_no_module_that_few_configurations_need():
    # -I and -S: what an environment's own start loads does not count.
    path = f"import sys; sys.path[:] = {[*sys.path]!r}; {PROGRAM}"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", path], capture_output=True, text=True, check=True)
    assert LOADED_WHEN_NEEDED & set(ran.stdout.split()) == set()


def test_rich_can_be_loaded_after_the_log():
    assert proxy.VERSION
    assert "rich" not in {name for name, module in sys.modules.items() if module is None}
