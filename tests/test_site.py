"""The site: built without a warning, no dead link, nothing loaded from elsewhere."""

import html
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.tables import each_row

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r'(?:src="|<link[^>]*href="|url\()["\']?(?:https?:)?//[^"\')]+')
LINK = re.compile(r'\b(?:href|src)="([^"]*)"')
NAMED = re.compile(r'\b(?:id|name)="([^"]*)"')

BUILD = """
import posixpath, sys
import furo
from sphinx.cmd.build import main

# The tree of all pages stands beside each page: two thirds of the time. It has the same links
# for all pages of a folder.
compute, kept = furo._compute_navigation_tree, {}
def once(context):
    folder = posixpath.dirname(context["pagename"])
    if folder not in kept:
        kept[folder] = compute(context)
    return kept[folder]
furo._compute_navigation_tree = once
sys.exit(main(sys.argv[1:]))
"""


def dead_links(folder):
    """Yield links of the pages in a folder that lead to no file, or to no place in one."""
    pages = {path: path.read_text("utf-8") for path in folder.rglob("*.html")}
    named = {path: {html.unescape(n) for n in NAMED.findall(t)} for path, t in pages.items()}
    for path, text in pages.items():
        for link in sorted(set(LINK.findall(text))):
            parts = urlsplit(html.unescape(link))
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not goal.is_file():
                yield f"{path.name}: {link}: no such file"
            elif place and goal in named and place not in named[goal]:
                yield f"{path.name}: {link}: no such place"


@pytest.mark.timeout(900)
def test_the_site_is_built_has_no_dead_link_and_needs_no_network(tmp_path):
    for library in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(library, reason=f"{library} is missing: pip install -e '.[site]'")
    site = tmp_path / "site"
    words = [sys.executable, "-c", BUILD, "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run([*words, "docs", site], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(site.rglob("*.html"))) > 200
    assert list(dead_links(site)) == []
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not LOADED.findall(path.read_text(errors="replace")), path.name


def test_dead_links_are_found(tmp_path):
    (tmp_path / "b.html").write_text('<p id="there">')
    links = [
        "b.html#there",
        "b.html#gone",
        "c.html",
        "#top",
        "https://example.org/x",
        "b.html",
    ]
    text = "".join(f'<a href="{link}">' for link in links)
    (tmp_path / "a.html").write_text(f'<h1 id="one">{text}')
    assert list(dead_links(tmp_path)) == [
        "a.html: #top: no such place",
        "a.html: b.html#gone: no such place",
        "a.html: c.html: no such file",
    ]


@each_row("""text
- <script src="https://a.b/x.js">
- <link rel="x" href="//a.b">
- url(http://a.b/f)
""")
def test_what_is_loaded_from_elsewhere_is_found(text):
    assert LOADED.findall(text)
