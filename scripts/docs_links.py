"""Hooks of MkDocs: links from the documentation to the repository's other files.

On the site such a file is the one that the repository shows; in a clone it is the one beside. A file that is not there
is a warning, which --strict turns into a failure.
"""

import logging
import posixpath
import re
from pathlib import Path

log = logging.getLogger("mkdocs.hooks.links")

LINK = re.compile(r"(?<!\!)\]\((\.\.?/[^)\s#]+|\.\./[^)\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Rewrites links to files outside the documentation's folder as links to the repository."""
    root = Path(config["docs_dir"]).parent
    here = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def there(match):
        path, anchor = match.group(1), match.group(2) or ""
        target = posixpath.normpath(posixpath.join(here, path))
        if target == "docs" or target.startswith("docs/"):
            return match.group(0)
        if not (root / target).exists():
            log.warning("%s links to %s, which is not there", page.file.src_uri, target)
        kind = "tree" if (root / target).is_dir() else "blob"
        return f"]({config['repo_url'].rstrip('/')}/{kind}/main/{target}{anchor})"

    return LINK.sub(there, markdown)


def on_nav(nav, config, files):
    """Warns about pages that are in no menu; docs/decisions/index.md lists the decisions."""
    known = {page.file.src_uri for page in nav.pages}
    for f in files.documentation_pages():
        if f.src_uri not in known and not f.src_uri.startswith("decisions/"):
            log.warning("%s is not in the navigation of mkdocs.yml", f.src_uri)
    return nav
