"""Whatever the comparison with Kafka tolerates is in the list of docs/reference/embedded-coordinator.md."""

from pathlib import Path

import pytest

from protocol_codecs.records import ConsumerGroupRegularExpressionKey, OffsetCommitKey
from tests.coordinator.comparison import SURPLUS
from tests.coordinator.log_comparison import CLOCKS, NAMES, SETS, VERSIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "embedded-coordinator.md"
TOLERATED = sorted(
    {
        *(
            field
            for table in (CLOCKS, NAMES, VERSIONS, SETS)
            for fields in table.values()
            for field in fields
        ),
        *SURPLUS,
        OffsetCommitKey.__name__,
        ConsumerGroupRegularExpressionKey.__name__,
    }
)


def differences() -> str:
    _, _, after = PAGE.read_text().partition("\n## Differences\n")
    section, _, _ = after.partition("\n## ")
    return section


@pytest.mark.parametrize("name", TOLERATED)
def test_what_is_tolerated_is_listed_and_justified(name: str):
    rows = [line.split("|")[1:3] for line in differences().splitlines() if line.startswith("|")]

    assert any(f"`{name}`" in what and len(why.strip()) > 40 for what, why in rows)
