"""`epochgate preflight`: what stands in the way of a migration, before anything is moved. It writes nothing.

``facts`` is what was learned, by whom it could be: ``ask_brokers`` connects without credentials, ``ask_account`` with
those of an account, and a running proxy is asked for its groups. What could not be learned is a value too
(:class:`~proxy.preflight.facts.Unknown`). ``judge`` applies the ``checks`` to the facts, without socket or clock, and
makes a report; ``command`` asks, judges and prints. So whatever starts a preflight, the answers are the same.
"""
