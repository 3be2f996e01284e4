"""The rules of the audit in plain Python: who owned which partition when, and what a journal proves of each group.

`epochgate verify` and the audit on Spark go by these rules, and the proxy may. Nothing here knows a file, a topic, a
clock or Spark: lines and events go in, findings and certificates come out. :mod:`audit.lines` parses a line,
:mod:`audit.ordering` puts those of many processes in order, :mod:`audit.ownership` goes through one group,
:mod:`audit.classes` judges what two owners at once mean, :mod:`audit.verifier` does all of it in one pass.
"""
