"""``python -m proxy.preflight``: the process of a running proxy's own preflight. Only the proxy starts it."""

from proxy.preflight.child import main

if __name__ == "__main__":
    main()
