"""``epochgate`` whose gates judge by windows of three seconds: `python quick_gates.py run --config FILE`."""

import runpy

from translation.member_log import signals

signals.WINDOW_S = 3.0  # before anything else has read it

if __name__ == "__main__":
    runpy.run_module("proxy", run_name="__main__", alter_sys=True)
