"""The site: built without a warning, and no page of it loads anything from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
for library in ("sphinx", "furo", "myst_parser"):
    pytest.importorskip(library, reason=f"{library} is missing: pip install -e '.[site]'")


@pytest.mark.slow
def test_the_site_is_built_and_needs_no_network(tmp_path):
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*words, "docs", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 100
    loaded = re.compile(r'(?:src="|<link[^>]*href="|url\()["\']?(?:https?:)?//[^"\')]+')
    for path in [*pages, *(tmp_path / "site").rglob("*.css")]:
        assert not loaded.findall(path.read_text(errors="replace")), path.name
