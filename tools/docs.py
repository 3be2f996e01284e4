"""Writes the pages of docs/ that are generated from the code: ``python -m tools.docs``. A test compares them."""

import inspect
import typing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pipeline.rules import certificate
from pipeline.rules.certificate import SetBack
from proxy.admin import config_view, preflight_report, preflight_view
from proxy.admin.api_query import GROUPS
from proxy.config.schema import Config
from proxy.groups import fleet_view, snapshot
from proxy.groups.proof_view import ProofView
from proxy.metrics.bounds import Bound
from proxy.metrics.classes import class_of
from proxy.metrics.registry import Metrics
from proxy.shadow import view
from tools import cli_docs, compatibility, kips_pages, module_map, preflight_docs, reload_docs, state_diagrams
from tools.judges import page as judges
from translation.moving.move_view import MoveView
from translation.partitions import TopicPartitionSet
from translation.policy.client_offer import ClientOffer
from translation.policy.policy import Policy
from translation.reasons import Reason

DOCS = Path(__file__).parent.parent / "docs"

_CONFIGURATION = """\
# Configuration

`epochgate run --config FILE` reads one YAML file. It refuses a key that is not in this table, a value of the wrong type
and a key given twice: it prints the file, the line and what it expected, and exits with code 2. `epochgate config check
FILE` does the same check without starting anything; `epochgate config schema` prints the JSON schema. A running proxy
applies most changes of the file [without a restart](../how-to/reload.md).

The smallest file:

```yaml
upstream:
  bootstrap: ["kafka-0:9092"]
listeners:
  - advertised_host: localhost
    nodes: {"0-9": 9100}
```

Environment variables override single values and lists of values. Their names are `EPOCHGATE_` and the key in capitals,
with two underscores for each level of nesting in the file. `EPOCHGATE_UPSTREAM__BOOTSTRAP=a:9092,b:9092` sets
`upstream.bootstrap`, `EPOCHGATE_LISTENERS__0__PORT=9092` the port of the first listener (which the file must have).
Such a variable that names no key is refused.

`make docs` writes this page from `proxy/config/schema.py` and `translation/policy/policy.py`.

| key | type | default | meaning |
| --- | --- | --- | --- |
"""

_POLICY = """
## The policy

`policy.file` names a file with an ordered list of rules. The first rule that matches a group decides for it; `default`
decides for all other groups.

```yaml
default: observe
rules:
  - {group: payments, mode: translate, assignor: range}
  - {pattern: "web-.*", mode: translate}
```

The proxy reads it again when it changes (within a second) and at SIGHUP, and drops no connection. It refuses a file
that it can't use, names the place of the mistake, and keeps the previous policy (`epochgate_policy_is_current` is 0).
With `policy.config_map` a pod hears of a change from the Kubernetes API, before kubelet updates the file.
[How translation works](../explanation/translation.md) says what a change does to the members of live groups.

`epochgate policy check FILE` refuses what the proxy would refuse (exit code 2), explains each rule, and warns of likely
mistakes: a rule that never applies, a pattern that matches one group only, an assignor that has no effect.

`epochgate policy plan FILE --admin URL` asks a running proxy for its groups. It lists which of them the file would
move, by which rule and for how long; which would get another assignor; which can't be translated; and which rules match
no group. It changes nothing. It knows what that proxy has seen of its own clients, and with a [member
log](../how-to/fleet.md#one-view) how many members other replicas serve. Whether the broker can convert
a group is asked when its first member is about to move.

| key | type | default | meaning |
| --- | --- | --- | --- |
"""

_METRICS = """\
# Metrics

`/metrics` on the admin port, in Prometheus' text format. Besides these there are the usual `process_*` and
`python_*` metrics. Histograms have `_bucket`, `_count` and `_sum` series, summaries `_count` and `_sum`.

Metrics that every Kafka proxy has use kroxylicious' names after the prefix, so that dashboards can be reused. The four
directions are `client_to_proxy`, `proxy_to_server`, `server_to_proxy` and `proxy_to_client`.

`make docs` writes this page from `proxy/metrics/registry.py`.

`over replicas` says how series of several processes are combined: `sum` what each has of its own, take the `max` of
what all of them say of the same thing, and `alert` on the lowest or highest of what is about a single process, without
adding it.

| metric | type | labels | over replicas | meaning |
| --- | --- | --- | --- | --- |
"""


_VALUES = """
## Values of labels

The only label whose value clients can influence is `group`. `reason` is a category; the full text, which may name an
assignor or a member, is in the log, in the journal and on the status page. The categories are the names of Kafka's
error codes, {reasons}, and the same after `observed: ` for JoinGroups that pass through because of `observe`.

`group` is the id of a group that has or had members at this proxy, or `other`.

`bound` is one of {bounds}. [What is kept of clients](../explanation/security.md#what-is-kept-of-clients) explains each.
"""


def configuration() -> str:
    """Return the page about the configuration and the policy."""
    config, policy = (_rows("", msgspec.inspect.type_info(one)) for one in (Config, Policy))
    return "".join((_CONFIGURATION, *config, _POLICY, *policy))


def _rows(prefix: str, info: Any) -> list[str]:
    rows: list[str] = []
    for field in info.fields:
        key = f"{prefix}{field.encode_name}"
        inner, meaning, bounds = _unwrapped(field.type)
        if (section := _section_or_null(inner)) is not None:
            rows.append(f"| `{key}` | mapping or `null` | {_default(field)} | {meaning} |\n")
            rows += _rows(f"{key}.", section)
        elif isinstance(inner, msgspec.inspect.StructType):
            rows += _rows(f"{key}.", inner)
        elif isinstance(inner, msgspec.inspect.VarTupleType) and isinstance(
            inner.item_type, msgspec.inspect.StructType
        ):
            rows += _rows(f"{key}[].", inner.item_type)
        else:
            kind = _kind(inner).replace("|", "\\|")
            rows.append(f"| `{key}` | {kind}{bounds} | {_default(field)} | {meaning} |\n")
    return rows


def _section_or_null(info: Any) -> Any | None:
    """Return the section that may stand where there is `null`; None for any other type."""
    if not isinstance(info, msgspec.inspect.UnionType):
        return None
    bare = (_unwrapped(one)[0] for one in info.types)
    return next((one for one in bare if isinstance(one, msgspec.inspect.StructType)), None)


def _unwrapped(info: Any) -> tuple[Any, str, str]:
    """Return the bare type, its description, and the bounds of its values."""
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
    if isinstance(info, inspect.EnumType):
        return " or ".join(f"`{member.value}`" for member in info.cls)
    if isinstance(info, inspect.VarTupleType):
        return f"list of {_kind(_unwrapped(info.item_type)[0])}"
    if isinstance(info, inspect.DictType):
        return f"mapping of {_kind(info.key_type)} to {_kind(_unwrapped(info.value_type)[0])}"
    names: dict[type[msgspec.inspect.Type], str] = {
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
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    value = list(default) if isinstance(default, tuple) else default
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


_API = """\
# The HTTP interface

The admin port (`admin.bind`, `admin.port`) serves a read-only HTTP interface: pages for people (`/`, `/groups/<id>`,
`/preflight`), endpoints for probes and Prometheus (`/healthz`, `/readyz`, `/metrics`: [Metrics](metrics.md)), and:

- `GET /api/groups`: a Snapshot of all groups, in pages. The groups come without their events unless `events=true`.
- `GET /api/groups/<id>`: one GroupView with its events; 404 if the group is not known.
- `GET /api/preflight`: a PreflightView, what the proxy's own last [preflight](../how-to/preflight.md) found.
- `GET /api/config`: a ConfigView, the configuration that is in force, for `epochgate config diff`
  ([Reload](../how-to/reload.md)).
- `GET /api/openapi.json`: this interface as an OpenAPI 3.1 document, for generated clients.

| parameter of `/api/groups` | type | meaning |
| --- | --- | --- |
{parameters}
**Pages.** Groups come in the order of their ids (by code points). A page ends after `limit` groups,
`visibility.page_groups` groups or about `visibility.page_max_bytes` bytes, whatever comes first, and holds at least one
group if there is one. `left_out` says how many groups come after it. While it is not 0, request the next page with the
last id of this page as `after`. The id is the cursor: a group that appears or ends between two pages moves no other
group to another page, so none is skipped or listed twice.

**Errors** are JSON: `{{"error": "limit: expected an integer from 1 to 1000000, got 'x'"}}`. 400: a parameter that is
unknown, given twice or malformed. 401 or 403: the port needs a token, or a client certificate ([the admin
port](../explanation/security.md#the-admin-port)). 404: no such group (`group` is its id) or no such path. 405: the
interface has GET and HEAD only. 421: the name in `Host` is not one of `admin.hosts`. 503: no process answers, because
all of them are restarting.

Percent-encode the group id in a URL. HTTP clients rewrite the paths `.` and `..`; for groups of these names use
`/groups/?id=..`, also below `/api`. A group whose id is too long to be kept (`visibility.id_max_chars`) is not listed;
other long texts are cut, with `…` and a hash of the whole text.

With several worker processes the answers cover all of them. Fields whose names end in `_at`, `_since` or `time` are
seconds since 1970-01-01 UTC, those whose names end in `_us` microseconds. Later versions may add fields, so ignore
those that you do not know. `v` changes if a field changes its meaning.

With a member log the groups are those of the fleet ([One view](../how-to/fleet.md#one-view)): what this proxy's own
clients do, and from the log which members other replicas serve. A group whose id has more than 255 characters is in
the log by the SHA-256 of its id, and listed so if only other replicas serve it.

This page is written by `make docs` from `snapshot.py` and `fleet_view.py` in `proxy/groups/`, `preflight_view.py`,
`preflight_report.py`, `config_view.py` and `api_query.py` in `proxy/admin/`.
"""


def api() -> str:
    """Return the page about the HTTP interface."""
    structs = (
        snapshot.Snapshot,
        snapshot.GroupView,
        snapshot.Progress,
        snapshot.ConnectView,
        snapshot.MemberView,
        snapshot.WorkerView,
        snapshot.BrokerView,
        snapshot.RebalanceView,
        snapshot.EventView,
        TopicPartitionSet,
        ClientOffer,
        MoveView,
        ProofView,
        certificate.Certificate,
        certificate.Owners,
        certificate.TwoOwners,
        certificate.Gaps,
        certificate.PauseTimes,
        certificate.CommitCounts,
        certificate.Compared,
        certificate.Side,
        SetBack,
        view.ShadowView,
        view.Span,
        view.CountView,
        view.MemberForecast,
        fleet_view.FleetView,
        fleet_view.FleetReplica,
        fleet_view.GroupFleet,
        fleet_view.ServedBy,
        fleet_view.FleetMember,
        preflight_view.PreflightView,
        preflight_report.Report,
        preflight_report.Finding,
        preflight_report.Outcome,
        config_view.ConfigView,
    )
    parameters = "".join(
        f"| `{name}` | {one.schema['type']} | {one.meaning} |\n" for name, one in GROUPS.items()
    )
    return _API.format(parameters=parameters) + "".join(_struct(one) for one in structs)


def _struct(kind: type[msgspec.Struct]) -> str:
    meaning = inspect.cleandoc(kind.__doc__ or "").replace("``", "`").replace("None", "`null`")
    rows = [f"| `{field.encode_name}` | {_type(field.type)} |\n" for field in msgspec.structs.fields(kind)]
    return f"\n## {kind.__name__}\n\n{meaning}\n\n| field | type |\n| --- | --- |\n{''.join(rows)}"


def _type(kind: Any) -> str:
    """Describe a type of the interface in words."""
    arguments = [one for one in typing.get_args(kind) if one is not Ellipsis]
    if typing.get_origin(kind) is tuple:
        return f"list of {_type(arguments[0])}"
    if typing.get_origin(kind) is dict:
        return f"{_type(arguments[1])} by {_type(arguments[0])}"
    if arguments:
        return " or ".join(_type(one) for one in arguments)
    names: dict[Any, str] = {
        Any: "any value",
        str: "text",
        int: "integer",
        float: "number",
        bool: "true or false",
        type(None): "`null`",
    }
    if isinstance(kind, type) and issubclass(kind, str):
        return "text"
    return names.get(kind) or kind.__name__


def metrics() -> str:
    """Return the page about the metrics."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | "
        f"{class_of(one.name)} | {one.meaning} |\n"
        for one in sorted(Metrics().table)
    ]
    reasons = ", ".join(f"`{one}`" for one in Reason)
    bounds = ", ".join(f"`{one}`" for one in Bound)
    return _METRICS + "".join(rows) + _VALUES.format(reasons=reasons, bounds=bounds)


PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_docs.page,
    "reference/configuration.md": configuration,
    "reference/metrics.md": metrics,
    "reference/api.md": api,
    "reference/compatibility.md": compatibility.page,
    "evidence/judges.md": judges.page,
    "explanation/architecture.md": module_map.page,
    "how-to/preflight.md": preflight_docs.page,
    "how-to/reload.md": reload_docs.page,
    **kips_pages.WRITTEN,
    **{name: partial(state_diagrams.page, name) for name in state_diagrams.DIAGRAMS},
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
