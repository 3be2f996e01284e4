"""The rules of the audit in plain Python: who owned which partition when, and what a journal proves of each group.

`epochgate verify` and the audit on Spark go by these rules. Nothing here knows a file, a topic, a clock or Spark: lines
and events go in, findings and certificates come out. :mod:`~pipeline.rules.lines` parses a line,
:mod:`~pipeline.rules.ordering` puts those of many processes in order, :mod:`~pipeline.rules.ownership` goes through one
group (its :mod:`~pipeline.rules.members` by its :mod:`~pipeline.rules.events`) and tells
:mod:`~pipeline.rules.findings`, :mod:`~pipeline.rules.classes` judges what two owners at once mean,
:mod:`~pipeline.rules.verifier` does it all in one pass.
"""
