"""Generated parts of pages: what stands between markers is replaced, and nothing else."""

import pytest

from tools.markers import replaced

PAGE = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"


def test_what_stands_between_the_markers_is_replaced():
    assert replaced(PAGE, "x", "new\n") == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"


@pytest.mark.parametrize(
    "page",
    ["a\n", PAGE.replace("<!-- /x -->\n", ""), PAGE + PAGE, "<!-- /x -->\n<!-- x -->\n"],
    ids=["none", "no end", "twice", "end first"],
)
def test_a_page_without_both_markers_once_and_in_order_is_refused(page):
    with pytest.raises(ValueError, match="<!-- x -->"):
        replaced(page, "x", "new\n")
