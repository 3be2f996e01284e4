"""What stands in more than one place about the programs of a cluster."""

import re

from tools.kubernetes import binaries
from tools.kubernetes.paths import KUBERNETES


def test_the_version_is_that_of_the_sources():
    pinned = re.findall(
        r"^\tk8s.io/kubernetes (\S+)", (binaries.SOURCES / "kubernetes/go.mod").read_text(), re.MULTILINE
    )
    assert pinned == [KUBERNETES]


def test_kubernetes_own_modules_are_those_of_the_same_release():
    replaced = re.findall(
        r"^\tk8s.io/\S+ => k8s.io/\S+ (\S+)$",
        (binaries.SOURCES / "kubernetes/go.mod").read_text(),
        re.MULTILINE,
    )
    assert len(replaced) > 20
    assert set(replaced) == {KUBERNETES.replace("v1.", "v0.")}


def test_every_module_pins_hashes_of_what_it_needs():
    for module in binaries.PROGRAMS:
        wants = "require" in (binaries.SOURCES / module / "go.mod").read_text()
        assert (binaries.SOURCES / module / "go.sum").exists() == wants, module
