"""Every command, by its words: where its function is, and the first sentence of its help.

A module is imported when its command is called: `epochgate version` costs nothing of the pipeline, and `epochgate run`
loads nothing of the demo. So packages above this one are named here as text.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Body(NamedTuple):
    """The function of a command, as ``module:name``, and the first sentence of its docstring."""

    at: str
    summary: str


GROUPS: Mapping[str, str] = {
    "config": "Check the configuration file, and preview what a change of it does.",
    "policy": "Check the policy file, and preview what it would change.",
    "pipeline": "Plan a migration and check it afterwards, on Spark: readiness, progress, audit, report.",
    "pipeline tables": "Show, compact and clean up the tables in a folder that readiness or audit wrote.",
}
"""Commands that only have others below them."""

COMMANDS: Mapping[str, Body] = {
    "status": Body(
        "proxy.cli.status:status",
        "Show the groups of a running proxy, or one of them.",
    ),
    "preflight": Body(
        "proxy.cli.preflight:preflight",
        "Check before a migration that brokers, groups, ACLs and the proxy let groups move, and back. Writes nothing.",
    ),
    "approve": Body(
        "proxy.cli.move_commands:approve",
        "Let the next step of a group's move begin, where the policy says `approval: required`.",
    ),
    "pause": Body(
        "proxy.cli.move_commands:pause",
        "Hold the move of a group: nobody more is translated, and no step begins, until `resume`.",
    ),
    "resume": Body(
        "proxy.cli.move_commands:resume",
        "Let the move of a group go on: at its step after `pause`, at the first step after `rollback`.",
    ),
    "rollback": Body(
        "proxy.cli.move_commands:rollback",
        "Bring the translated members of a group back to the classic protocol, and keep it there until `resume`.",
    ),
    "version": Body(
        "proxy.cli.version:version",
        "Print the version. As JSON, also the version of Python.",
    ),
    "run": Body(
        "proxy.cli.run:run",
        "Run the proxy until SIGTERM or Ctrl-C.",
    ),
    "exporter": Body(
        "proxy.cli.exporter:exporter",
        "Serve the lag of all groups as metrics, under the names of common exporters, until SIGTERM or Ctrl-C.",
    ),
    "demo": Body(
        "proxy.demo.cli:demo",
        "Move a group at work, and show what changes cost it and a group that stays classic; or show a share group.",
    ),
    "capture": Body(
        "pipeline.commands.capture:capture",
        "Copy a cluster's __consumer_offsets (and __share_group_state) to files, for `epochgate pipeline readiness`.",
    ),
    "verify": Body(
        "pipeline.commands.verify:verify",
        "Certify for each group what the journals of all replicas prove: that no partition had two owners at once.",
    ),
    "config check": Body(
        "proxy.cli.config:check",
        "Check a configuration file, the TLS files, secrets and policy that it names, without starting anything.",
    ),
    "config diff": Body(
        "proxy.cli.config_diff:diff",
        "Preview what a running proxy would do if its configuration file changed, and what needs a restart.",
    ),
    "config brokers": Body(
        "proxy.cli.config:brokers",
        "Find out which security the brokers require, and list what the configuration lacks for it.",
    ),
    "config schema": Body(
        "proxy.cli.config:schema",
        "Print the JSON schema of the configuration file.",
    ),
    "policy check": Body(
        "proxy.cli.policy:check",
        "Check a policy file or directory, and say what each of its rules does.",
    ),
    "policy plan": Body(
        "proxy.cli.policy:plan",
        "Preview what a policy file would change in the live groups of a running proxy, and what it can't.",
    ),
    "policy from-readiness": Body(
        "pipeline.commands.policy_from_readiness:from_readiness",
        "Write the policy that moves all ready groups in waves, each group by steps, from the tables of readiness.",
    ),
    "pipeline readiness": Body(
        "pipeline.commands.readiness:readiness",
        "Report which groups can move, what prevents the others, and in which order: from __consumer_offsets.",
    ),
    "pipeline progress": Body(
        "pipeline.commands.progress:progress",
        "Report how far each group is, how long its members paused, and which members are stuck; follows the journal.",
    ),
    "pipeline audit": Body(
        "pipeline.commands.audit:audit",
        "Find partitions that two members owned at once, and times without an owner, in the journals of all replicas.",
    ),
    "pipeline report": Body(
        "pipeline.commands.report:report",
        "Write one HTML file with everything that the other commands found.",
    ),
    "pipeline tables show": Body(
        "pipeline.commands.tables:show",
        "Say which run's tables hold, and how their quality was judged; with Delta Lake also every table's versions.",
    ),
    "pipeline tables compact": Body(
        "pipeline.commands.tables:compact",
        "Write small files anew as larger ones: folders that incremental audits have added, and Delta Lake's files.",
    ),
    "pipeline tables vacuum": Body(
        "pipeline.commands.tables:vacuum",
        "Delete the files of earlier versions of tables in Delta Lake: these can't be read from then on.",
    ),
}
