"""Several processes on the same ports: one supervisor that listens, and workers that serve.

The supervisor accepts every connection and hands its socket to the worker that the client's address belongs to, so
that all connections of one client are served by one process (``affinity``). Workers are whole proxies
(:class:`proxy.server.server.Server`) without ports of their own; they share nothing, as replicas do. A worker that
dies is started again in its place, and what it had counted still counts (``totals``).

Whoever wants to know something of every worker asks: ``await processes.ask("groups", Groups)`` gives the list of
what each worker's ``await server.answers["groups"]()`` gave, a msgspec struct. With ``workers: 1`` the same call
goes to the one process (:mod:`proxy.observability.process_queries`), so that callers need not know the difference; the
application behind the admin port is given either.
"""
