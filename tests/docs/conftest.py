"""The documentation site, built once for the tests of this folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import Need, without
from tools.chart.binaries import NoGoError, binary
from tools.docs_site import mermaid

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the site as `make docs-build` builds it: a warning fails the test."""
    try:
        mermaid.ensure_fetched()
    except mermaid.NoMermaidError as error:
        if shutil.which("npm") is None:
            without(Need.TOOLS, error)
        raise
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def helm() -> Path:
    """helm is there from here on."""
    try:
        return binary("helm")
    except NoGoError as reason:
        without(Need.CHART, f"no helm: {reason}")
