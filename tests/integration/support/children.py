"""Processes in a session of their own that nevertheless end with the one that started them, however that ended."""

import shutil


def ending_with_its_parent(command: list[str]) -> list[str]:
    """Return the command by which Linux kills the process when its parent (the thread that starts it) has ended.

    A signal to pytest's process group does not reach a process in another session, and a pytest that was killed cleans
    up nothing.
    """
    if shutil.which("setpriv") is None:  # of util-linux
        return command
    return ["setpriv", "--pdeathsig", "KILL", "--", *command]
