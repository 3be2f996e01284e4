"""What benchmarks share knows none of them."""

import re

from tools.module_map import ROOT


def test_the_library_imports_nothing_of_a_benchmark():
    files = sorted((ROOT / "benchmarks" / "lib").glob("*.py"))
    imports = [
        found for file in files for found in re.findall(r"(?:from|import) (benchmarks\S*)", file.read_text())
    ]
    assert imports
    assert [one for one in imports if not one.startswith("benchmarks.lib")] == []
