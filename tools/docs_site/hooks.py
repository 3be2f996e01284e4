"""Hooks of mkdocs (mkdocs.yml names this file): rewrite links out of docs/, and draw diagrams without a network.

Pages link to other files of the repository relatively, so that the links work in a checkout and on the forge. On the
site they point at the forge. A link to a file that does not exist is a warning, which fails `mkdocs build --strict`.
"""

import logging
import os
import re
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs_site.mermaid import SCRIPT

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)")
_FENCE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_DIAGRAM = re.compile(r'<pre class="mermaid">.*?</pre>', re.DOTALL)
_SITE_SCRIPT = "assets/javascripts/mermaid.min.js"
_log = logging.getLogger("mkdocs.hooks")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show diagrams as their source if the script is missing: the theme would fetch it from a CDN."""
    if not SCRIPT.exists():
        config.mdx_configs["pymdownx.superfences"]["custom_fences"] = []
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the script that draws diagrams to the site."""
    if SCRIPT.exists():
        files.append(File.generated(config, _SITE_SCRIPT, abs_src_path=str(SCRIPT)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Point links that leave docs/ at the forge."""
    folder = dirname(f"docs/{page.file.src_uri}")

    def on_the_forge(match: re.Match[str]) -> str:
        target = normpath(f"{folder}/{match[0]}")
        if target.startswith("docs/"):
            return match[0]
        if target.startswith("..") or not (ROOT / target).exists():
            _log.warning("%s links to %s, which does not exist", page.file.src_uri, target)
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{config.extra['repository']}/{kind}/main/{target}"

    code = [match.span() for match in _FENCE.finditer(markdown)]
    return _LINK.sub(
        lambda match: match[0] if any(a <= match.start() < b for a, b in code) else on_the_forge(match),
        markdown,
    )


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """On pages with a diagram, load the script that draws it (three megabytes) before the theme's own."""
    if 'class="mermaid"' not in output:
        return output
    output = _DIAGRAM.sub(r'<div class="diagram">\g<0></div>', output)  # which can scroll, on a phone
    here = os.path.relpath(_SITE_SCRIPT, page.url or ".")
    return output.replace("<script src=", f'<script src="{here}"></script><script src=', 1)
