"""The journal: a line for each event of a group, written to files or a topic, which the audit and `verify` read."""
