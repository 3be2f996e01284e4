"""Before the migration: which groups can move, what stands in the way, and in which order.

``records`` reads and checks ``__consumer_offsets``, ``content`` turns its records into tables, ``verdicts`` and
``waves`` judge (plain Python, no Spark), ``policy_file`` writes what the proxy takes, ``job`` runs it all.
"""
