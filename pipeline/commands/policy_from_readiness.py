"""`epochgate policy from-readiness`: needs pyarrow, and neither Spark nor Java."""

import re
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.common import LOCAL_FOLDER, exit_on_error, say
from pipeline.errors import PipelineError
from proxy.runtime.console_output import Output, OutputFormat, print_json

if TYPE_CHECKING:
    from pipeline.readiness.policy_set import PlannedGroup

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")


class Form(StrEnum):
    """In which form the policy is written."""

    FOLDER = "folder"
    CONFIG_MAPS = "configmaps"
    HELM_VALUES = "helm-values"


def from_readiness(
    readiness: Annotated[
        Path,
        typer.Argument(
            parser=LOCAL_FOLDER, metavar="DIR", help="Folder that `epochgate pipeline readiness` wrote."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            parser=LOCAL_FOLDER,
            metavar="DIR",
            help="Folder for the files. Files of your own in it stay; it is an error if one that was generated has "
            "been changed.",
        ),
    ],
    form: Annotated[
        Form,
        typer.Option(
            "--as",
            help="folder: policy files and a manifest, for `policy.file`. configmaps: the same as a set of ConfigMaps, "
            "for `kubectl apply --server-side -f DIR`. helm-values: the same as values of the chart.",
        ),
    ] = Form.FOLDER,
    through_wave: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The last wave that is live: later ones are observed. Default: all are live.",
        ),
    ] = None,
    steps: Annotated[
        str, typer.Option(metavar="STEPS", help="By which shares of its members a group moves.")
    ] = "1,10%,50%,100%",
    hold_s: Annotated[
        int, typer.Option(min=0, metavar="S", help="For how long each step is held, in seconds.")
    ] = 600,
    share: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="The share of a wave's groups that have to be over before the next begins."
        ),
    ] = "100%",
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="A group that is left out. Repeat the option for several."),
    ] = None,
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="With configmaps: what their names and their label begin with."),
    ] = "epochgate-policy",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Write the policy that moves all ready groups in waves, each group by steps, from the tables of readiness.

    Prints what differs from the files that are there. The same tables and options give the same files.
    """
    if _NAME.fullmatch(name) is None:
        raise typer.BadParameter(f"{name}: not the beginning of a Kubernetes name")
    with exit_on_error():
        from pipeline.readiness import policy_folder, policy_kubernetes  # noqa: PLC0415 - not for other commands
        from pipeline.readiness.policy_set import Options, policy_set  # noqa: PLC0415
        from proxy.config.loader import ConfigError  # noqa: PLC0415 - executors have nothing of the proxy
        from proxy.config.policy_source import policy_of_files  # noqa: PLC0415

        rows, allowed = _table(readiness)
        options = Options(
            through_wave=through_wave,
            steps=tuple(one.strip() for one in steps.split(",")),
            hold_s=hold_s,
            share=share,
            exclude=tuple(exclude or ()),
            assignors_allowed=allowed,
        )
        made = policy_set(rows, options)
        try:
            loaded = policy_of_files(str(out), made.files, manifest_required=True)
        except ConfigError as error:
            raise PipelineError(f"the proxy would refuse it: {error}") from None
        match form:
            case Form.FOLDER:
                files = made.files
            case Form.CONFIG_MAPS:
                files = policy_kubernetes.config_maps(made.files, name)
            case Form.HELM_VALUES:
                files = policy_kubernetes.helm_values(made.files)
        written = policy_folder.write(out, files)
    skipped = Counter(one.why for one in made.skipped)
    if output is OutputFormat.JSON:
        print_json(
            {
                "files": sorted(files),
                "changed": written.changed,
                "removed": written.removed,
                "differences": written.differences,
                "digest": loaded.digest,
                "groups": made.groups,
                "members": made.members,
                "waves": made.waves,
                "left_out": skipped,
            }
        )
        return
    for line in written.differences:
        say(line)
    say(f"{made.waves} waves with {made.groups} groups and {made.members} members; digest {loaded.digest}")
    for why, count in sorted(skipped.items()):
        say(f"{count} left out: {why}")
    changed = f"{len(written.changed)} of {len(files)} files written, {len(written.removed)} removed"
    say(f"{out}: {changed}")
    if form is Form.CONFIG_MAPS:
        say(f"kubectl apply --server-side -f {out}")


def _table(readiness: Path) -> tuple[list["PlannedGroup"], tuple[str, ...]]:
    """The rows of the table of waves, and the assignors that readiness was told to allow.

    :raises PipelineError: there is no such table, or it is one of an older version.
    """
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415
    except ImportError:
        raise PipelineError(
            "reading the tables needs pyarrow: pip install '.[pipeline]' in a checkout of Epochgate"
        ) from None
    from pipeline.readiness.policy_set import PlannedGroup  # noqa: PLC0415
    from pipeline.table_files import files_of_table  # noqa: PLC0415

    columns = [*PlannedGroup._fields, "assignors_allowed"]
    folder = readiness / "waves"
    try:
        found = files_of_table(readiness, "waves")
        folder = found.folder
        if found.files == []:
            return [], ()
        table = parquet.read_table(found.files or folder)
    except (ArrowException, OSError) as error:
        raise PipelineError(f"{folder}: no table of `epochgate pipeline readiness`: {error}") from None
    lacking = [column for column in columns if column not in table.column_names]
    if lacking:
        raise PipelineError(
            f"{folder}: has no column {lacking[0]}: write it anew with this version of Epochgate"
        )
    rows, allowed = [], set[str]()
    for row in table.select(columns).to_pylist():
        allowed.update(row.pop("assignors_allowed") or ())
        rows.append(PlannedGroup(**row))
    return rows, tuple(sorted(allowed))
