"""The site has the pages of the repository's root too, and links no file that it does not have."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
NAMES = {page.name: f"{page.stem.lower()}.md" for page in ROOT.glob("*.md")} | {"README.md": "overview.md"}
"""Page of the root → its name on the site, where `README.md` would be the home page."""

_LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of the root."""
    for name, site_name in NAMES.items():
        files.append(File.generated(config, site_name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Any, **_: Any) -> str:
    """Turns links as a code host reads them into links of the site; of a link to source code, the text is left."""
    uri = page.file.src_uri
    folder = "" if uri in NAMES.values() else posixpath.join("docs", posixpath.dirname(uri))

    def on_the_site(link: re.Match[str]) -> str:
        if ":" in link["target"]:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, link["target"]))
        target = NAMES.get(path) or path.removeprefix("docs/")
        if path != target and files.get_file_from_path(target):
            there = posixpath.relpath(target, posixpath.dirname(uri) or ".")
            return f"[{link['text']}]({there}{link['anchor'] or ''})"
        return link["text"] if (ROOT / path).exists() else link[0]

    return _LINK.sub(on_the_site, markdown)
