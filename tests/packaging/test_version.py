"""The version is written once, in pyproject.toml; what must repeat it is compared here."""

import re
from importlib.metadata import version

import yaml

from proxy import VERSION
from tools.dist import ROOT
from tools.dist import version as written


def test_it_is_a_semantic_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", written())


def test_the_installed_package_has_it():
    assert version("epochgate") == written()


def test_the_chart_has_it():
    chart = yaml.safe_load((ROOT / "charts" / "epochgate" / "Chart.yaml").read_text())
    assert chart["appVersion"] == written()


def test_the_image_has_it():
    label = re.search(r'image\.version="([^"]+)"', (ROOT / "Dockerfile").read_text())
    assert label is not None
    assert label[1] == written()


def test_the_constant_has_it():
    assert written() == VERSION


def test_no_other_module_writes_it_down():
    found = [
        str(file.relative_to(ROOT))
        for room in ("protocol_codecs", "translation", "coordinator", "hosting", "proxy", "pipeline")
        for file in (ROOT / room).rglob("*.py")
        if re.search(rf"""["']{re.escape(written())}["']""", file.read_text(encoding="utf-8"))
    ]
    assert found == ["proxy/__init__.py"]
