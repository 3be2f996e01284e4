"""Formal models of moving a group (TLA+), checked by TLC, and histories of the simulation checked against them.

``python -m tests.formal`` checks every model and prints what TLC says; ``--mutants`` shows that each rule is needed.
"""
