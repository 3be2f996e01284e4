"""`epochgate exporter`: the lag of all groups as metrics, under the names of common exporters.

A process of its own, because of what it serves there may be one only: with two, sums over groups would be twice as
large. ``census`` knows which groups there are, ``families`` makes metrics of their readings without clock or socket,
and ``exporter`` reads and serves. ``cluster_census`` counts the groups of all types, over connections of its own
(``broker_connection``).
"""
