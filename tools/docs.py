"""Write the pages of docs/ that follow from the code: ``python -m tools.docs``. A test holds them to it."""

from pathlib import Path
from typing import Any

import msgspec

from proxy.config import Config
from proxy.metrics import Metrics

DOCS = Path(__file__).parent.parent / "docs"

_CONFIGURATION = """\
# Configuration

`epochgate run --config FILE` reads one YAML file. A key that is not in this table, a value of the wrong type, a key
given twice: each is refused with file, line and what was expected, and exit code 2. `epochgate config check FILE`
says so without starting anything, `epochgate config schema` prints the JSON schema.

The smallest file:

```yaml
upstream:
  bootstrap: ["kafka-0:9092"]
listeners:
  - advertised_host: localhost
    nodes: {"0-9": 9100}
```

Environment variables override single values, and lists of them: `EPOCHGATE_` and the key in capitals, with two
underscores where the file goes one level down. `EPOCHGATE_UPSTREAM__BOOTSTRAP=a:9092,b:9092` sets
`upstream.bootstrap`, `EPOCHGATE_LISTENERS__0__PORT=9092` the port of the first listener (which the file must have).
A variable with two underscores that names no key is refused.

This page is written by `make docs` from `proxy/config.py`.

| key | type | default | meaning |
| --- | --- | --- | --- |
"""

_METRICS = """\
# Metrics

`/metrics` on the admin port, in Prometheus' text format. Besides these there are the usual `process_*` and
`python_*` metrics. Histograms have `_bucket`, `_count` and `_sum` series, summaries `_count` and `_sum`.

What every Kafka proxy counts is named as kroxylicious names it after the prefix, so that dashboards carry over:
`client_to_proxy`, `proxy_to_server`, `server_to_proxy`, `proxy_to_client` are the four ways.

This page is written by `make docs` from `proxy/metrics.py`.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
"""


def configuration() -> str:
    """The page about the configuration."""
    return _CONFIGURATION + "".join(_rows("", msgspec.inspect.type_info(Config)))


def _rows(prefix: str, info: Any) -> list[str]:
    rows: list[str] = []
    for field in info.fields:
        key = f"{prefix}{field.encode_name}"
        inner, meaning, bounds = _unwrapped(field.type)
        if isinstance(inner, msgspec.inspect.StructType):
            rows += _rows(f"{key}.", inner)
        elif isinstance(inner, msgspec.inspect.VarTupleType) and isinstance(
            inner.item_type, msgspec.inspect.StructType
        ):
            rows += _rows(f"{key}[].", inner.item_type)
        else:
            kind = _kind(inner).replace("|", "\\|")
            rows.append(f"| `{key}` | {kind}{bounds} | {_default(field)} | {meaning} |\n")
    return rows


def _unwrapped(info: Any) -> tuple[Any, str, str]:
    """The bare type, its description, and the bounds of its values."""
    meaning = ""
    while isinstance(info, msgspec.inspect.Metadata):
        meaning = meaning or (info.extra_json_schema or {}).get("description", "")
        info = info.type
    low, high = getattr(info, "ge", None), getattr(info, "le", None)
    above = getattr(info, "gt", None)
    if low is not None and high is not None:
        return info, meaning, f", {low} to {high}"
    if low is not None:
        return info, meaning, f", at least {low}"
    return info, meaning, "" if above is None else f", above {above}"


def _kind(info: Any) -> str:
    inspect = msgspec.inspect
    if isinstance(info, inspect.UnionType):
        return " or ".join(_kind(_unwrapped(one)[0]) for one in info.types)
    if isinstance(info, inspect.LiteralType):
        return " or ".join(f"`{value}`" for value in info.values)
    if isinstance(info, inspect.VarTupleType):
        return f"list of {_kind(_unwrapped(info.item_type)[0])}"
    if isinstance(info, inspect.DictType):
        return f"mapping of {_kind(info.key_type)} to {_kind(_unwrapped(info.value_type)[0])}"
    names = {
        inspect.StrType: "text",
        inspect.IntType: "integer",
        inspect.FloatType: "number",
        inspect.BoolType: "true or false",
        inspect.NoneType: "`null`",
    }
    return names[type(info)]


def _default(field: Any) -> str:
    if field.required:
        return "*required*"
    value = field.default
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


def metrics() -> str:
    """The page about the metrics."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.meaning} |\n"
        for one in sorted(Metrics().table)
    ]
    return _METRICS + "".join(rows)


PAGES = {"configuration.md": configuration, "metrics.md": metrics}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
