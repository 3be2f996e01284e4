"""``python -m proxy.workers``: what the supervisor starts; not for people."""

from proxy.workers.worker import main

if __name__ == "__main__":
    main()
