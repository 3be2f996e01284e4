"""A process that ends by SIGSEGV as soon as it is asked something."""

import os
import signal
import sys

from proxy.runtime.frames import read_frame

if __name__ == "__main__":
    read_frame(sys.stdin.buffer)
    os.kill(os.getpid(), signal.SIGSEGV)
