"""Several processes on the same ports: a supervisor that accepts connections, and workers that serve them.

The supervisor passes each accepted socket to the worker that the client's address and client id hash to, so one process
serves all connections of a client (:mod:`proxy.workers.affinity`). Each worker is a whole proxy
(:class:`proxy.server.server.Server`) without ports of its own; workers share no state, just as replicas don't. The
supervisor restarts a worker that crashes, and keeps its counters in the totals
(:mod:`proxy.admin.metrics_aggregation`).

``await processes.query("groups", Snapshot)`` asks all workers and returns a list with the result of each worker's
``server.query_handlers["groups"]``. With ``workers: 1`` the same call queries the one process
(:mod:`proxy.admin.process_queries`), so the admin HTTP application works with either.
"""
