"""What a person can do something about: said in one line, without a traceback."""


class PipelineError(Exception):
    """Something that the pipeline needs is missing or wrong; the message says what, and what would help."""
