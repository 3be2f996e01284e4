"""``epochgate config diff``: the plan of a reload, before there is one; its exit code is 3 if a change needs a
restart.
"""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from protocol_codecs.printable import printable
from proxy.cli.configuration import checked, refused
from proxy.cli.tls_options import Authorities, Certificate, Key, TokenFile
from proxy.config.document import ConfigError
from proxy.reload.config_plan import Kind, Plan, plan_of
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode

_TIMEOUT_S = 5.0


def diff(
    file: Annotated[
        str,
        typer.Argument(
            help="The configuration file of the proxy, or the URL of its admin port: http://127.0.0.1:9080."
        ),
    ],
    new: Annotated[
        Path,
        typer.Argument(help="A file with the new content. Its paths are relative to the folder of FILE."),
    ],
    token_file: TokenFile = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: Key = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Preview what a running proxy would do if its configuration file changed, and what needs a restart.

    Both files are checked as `config check` does, with the environment of this command. With a URL the new one is
    compared with what is in force in the proxy; files that it names are not checked, as they are where the proxy is.

    A proxy makes all changes or none. The exit code is 0 if it would make them, or there are none; 3 if one needs a
    restart; 2 if a file is invalid; 1 if no proxy answers.
    """
    from proxy.admin.admin_client import NoAnswerError  # noqa: PLC0415 - `config check` has no use for it

    try:
        if "://" in file:
            plan, hidden = _against_proxy(file, new, token_file, ca, cert, key)
        else:
            old = checked(Path(file)).config
            plan, hidden = plan_of(old, checked(new, Path(file).parent).config), ()
    except ConfigError as error:
        if output is OutputFormat.JSON:
            print_json({"old": file, "new": str(new), "valid": False, "errors": error.problems})
        raise refused(error) from None
    except NoAnswerError as error:
        raise refused(error, ExitCode.FAILED) from None
    if output is OutputFormat.JSON:
        found = {"steps": plan.steps, "needs_restart": bool(plan.restarts), "not_compared": hidden}
        print_json({"old": file, "new": str(new), "valid": True, **found, "verdict": plan.verdict})
    else:
        _print(plan, hidden)
    if plan.restarts:
        raise typer.Exit(ExitCode.PROBLEM_FOUND)


def _against_proxy(
    url: str, new: Path, token_file: Path | None, ca: Path | None, cert: Path | None, key: Path | None
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan from what is in force in the proxy, and the keys that it does not show.

    :raises NoAnswerError: no proxy answers, or one of another version.
    :raises ConfigError: the new file is invalid, or one of the credentials.
    """
    from proxy.admin.admin_client import (  # noqa: PLC0415
        NoAnswerError,
        admin_url,
        credentials_for,
        fetch_config,
    )
    from proxy.admin.config_view import without_secrets  # noqa: PLC0415
    from proxy.config.loader import load_config  # noqa: PLC0415
    from proxy.config.schema import Config  # noqa: PLC0415

    credentials = credentials_for(None, token_file, ca, cert, key)
    view = fetch_config(admin_url(url, None), timeout_s=_TIMEOUT_S, credentials=credentials)
    try:
        old = msgspec.convert(view.config, Config)
    except msgspec.ValidationError as error:
        raise NoAnswerError(f"{url}: its configuration is one of another version: {error}") from None
    config, hidden = without_secrets(load_config(new, folder=Path(view.folder)))
    return plan_of(old, config), tuple(sorted({*hidden, *view.hidden}))


def _print(plan: Plan, hidden: tuple[str, ...]) -> None:
    for step in (*plan.restarts, *plan.of(*(kind for kind in Kind if kind is not Kind.RESTART))):
        typer.echo(printable(f"{'restart' if step.kind is Kind.RESTART else 'reload ':9}{step}"))
    if hidden:
        typer.echo(printable(f"not compared, as the proxy does not show it: {', '.join(hidden)}"))
    typer.echo(plan.verdict)
