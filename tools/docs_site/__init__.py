"""The documentation site: what `mkdocs.yml` needs beside the theme."""
