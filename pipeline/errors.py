"""The error for problems that the user can fix; commands print it in one line without a traceback."""


class PipelineError(Exception):
    """Something that the pipeline needs is missing or wrong; the message says what it is and how to fix it."""
