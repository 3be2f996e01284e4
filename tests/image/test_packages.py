"""What images need is installed where nothing may be missing."""

from tools.image import packages
from tools.image.paths import ROOT


def test_ci_installs_what_images_need():
    script = (ROOT / ".ci" / "run").read_text()
    assert [
        package for package in packages.NEEDED.values() if package not in script.split("make setup")[0]
    ] == []
