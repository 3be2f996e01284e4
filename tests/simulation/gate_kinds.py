"""What is planted in a run with gates (:mod:`tests.simulation.gates`)."""

HARM, CONTROL, FAULT, SILENT = "harm", "control", "fault", "silent"
KINDS = ("", HARM, CONTROL, FAULT, SILENT)
"""Empty: nothing."""
