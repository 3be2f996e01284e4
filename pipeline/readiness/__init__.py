"""Reports readiness before a migration: which groups can move, what prevents the others, and in which order.

``records`` reads and checks ``__consumer_offsets``, ``content`` turns its records into tables, ``verdicts`` and
``waves`` judge (plain Python, no Spark), ``policy_file`` writes what the proxy takes, ``job`` runs it all.
"""
