"""Exit codes: each has one meaning for all commands. docs/reference/cli.md is written from this module."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the end of a command tells whoever started it; :data:`MEANINGS` says more."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    PROBLEM_FOUND = 3
    UNDECIDED = 4
    INTERNAL_ERROR = 70
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.SUCCESS: "The command did what it was asked to do. `run` was stopped by a signal and has drained.",
    ExitCode.FAILED: "The command could not do it: a port is taken, no broker or no proxy answers, Java or an optional "
    "package is missing, input can't be read, a command about a move is refused. `run` also ends so at a second "
    "signal, without finishing the drain.",
    ExitCode.USAGE: "An option, the configuration or the policy is invalid. Nothing was started.",
    ExitCode.PROBLEM_FOUND: "The command did its work and found a problem: `status` a stuck group, `preflight` what "
    "stands in the way of a migration, `config brokers` what brokers require and the configuration lacks, `config "
    "diff` a change that needs a restart, `pipeline audit` and `verify` a partition that two members owned at once, "
    "`demo` a group that lost records or noticed its move.",
    ExitCode.UNDECIDED: "The command did its work, found no problem, and can't say that there is none: `verify` a "
    "group of which the journal proves nothing, `preflight` what it could not look at. `approve`, `pause`, `resume` "
    "and `rollback`: it is written, and not known yet whether it counts.",
    ExitCode.INTERNAL_ERROR: "A bug (EX_SOFTWARE of sysexits.h). The log or standard error has the traceback.",
    ExitCode.INTERRUPTED: "Ctrl-C ended the command.",
}
"""A sentence for each exit code, for the docs."""
