"""The version of the software, as pyproject.toml has it. A constant: reading the package's metadata takes longer."""

VERSION = "0.1.0"
