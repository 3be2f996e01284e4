"""Builds the documentation site: what `mkdocs.yml` needs besides the theme."""
