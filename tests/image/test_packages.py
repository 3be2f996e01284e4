"""What images need is installed where nothing may be missing."""

from tools.image import packages
from tools.image.paths import ROOT


def test_ci_installs_what_images_need():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    installed = " ".join(line for line in lines if "missing+=" in line)
    assert [package for package in packages.NEEDED.values() if package not in installed] == []
