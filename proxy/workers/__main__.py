"""``python -m proxy.workers``: the worker process. Only the supervisor starts it."""

from proxy.workers.worker import main

if __name__ == "__main__":
    main()
