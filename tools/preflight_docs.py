"""Writes the table of checks in docs/how-to/preflight.md."""

from pathlib import Path

from proxy.admin.preflight_report import Source
from proxy.preflight.checks.table import CHECKS
from tools.markers import replaced

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "preflight.md"
_ASKED = {
    Source.BROKERS: "brokers",
    Source.API_VERSIONS: "ApiVersions",
    Source.SETTINGS: "DescribeConfigs of brokers",
    Source.GROUPS: "groups",
    Source.GROUP_SETTINGS: "DescribeConfigs of groups",
    Source.ACLS: "DescribeAcls",
    Source.PROXY: "`--proxy`",
    Source.CONFIGURATION: "`--config`",
    Source.PORTS: "`--config` without `--proxy`",
    Source.VERSION: "`--kafka-version`",
}


def page() -> str:
    """Return the page with its table written anew."""
    rows = ["| check | what has to hold | from |", "| --- | --- | --- |"]
    for check in CHECKS:
        asked = ", ".join(_ASKED[source] for source in Source if source in check.sources)
        rows.append(f"| `{check.name}` | {check.meaning} | {asked} |")
    return replaced(PAGE.read_text(encoding="utf-8"), "checks", "\n".join(rows) + "\n")
