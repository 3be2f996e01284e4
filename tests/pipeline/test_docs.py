"""The pages about the pipeline say what the code does."""

import re
from pathlib import Path

from pipeline.readiness import verdicts
from tools import pipeline_docs


def test_the_tables_are_those_of_the_code() -> None:
    page = pipeline_docs.PAGE.read_text(encoding="utf-8")
    assert page == pipeline_docs.page(page), "run `make docs`"


def test_every_reason_of_a_verdict_is_explained() -> None:
    source = Path(verdicts.__file__).read_text(encoding="utf-8")
    codes = set(re.findall(r'_(?:blocks|remark)\(\s*"(\w+)"', source))
    page = (pipeline_docs.PAGE.parents[1] / "how-to" / "pipeline.md").read_text(encoding="utf-8")
    assert len(codes) > 10
    assert {code for code in codes if f"`{code}`" not in page} == set()
