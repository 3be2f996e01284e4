"""Reports readiness before a migration: which groups can move, what prevents the others, and in which order.

``records`` reads and checks ``__consumer_offsets``, ``content`` decodes its records into tables, ``verdicts`` and
``waves`` decide (plain Python, no Spark), ``policy_file`` writes the proxy's policy, ``job`` runs it all.
"""
