"""Check pages by axe in Chromium: ``python docs/check_pages.py --axe AXE.JS PAGE...``.

Each page is opened in light and dark, as wide as a desk's screen and as a phone's, without the
network. What axe finds (contrast, headings, names, ...) is printed, and what is covered, cut
or too wide for a phone; then the exit code is 1. ``make pages`` fetches axe-core, makes the
pages, and checks them all. ``--shots FOLDER`` writes pictures of the pages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import SCHEMES, WIDTHS, Browser, find_chromium

_AXE = """
axe.run(document, {resultTypes: ["violations"]}).then((found) =>
  found.violations.map((v) => [v.id, v.help, v.nodes.length, v.nodes[0].html.slice(0, 160)]))
"""
_LAYOUT = """(() => {
  const at = (e) => e.getBoundingClientRect();
  const shown = (e) => at(e).width > 0 && at(e).height > 0;
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const items = [...document.querySelectorAll("svg .item")].filter(shown);
  const frames = [...document.querySelectorAll("#graph")].map(at);
  const inside = (r) => frames.some((f) => meet(f, r));
  const controls = [...document.querySelectorAll("button, select, input")].filter(shown);
  const found = [];
  for (const item of items.filter((i) => inside(at(i)))) {
    for (const control of controls)
      if (meet(at(control), at(item))) found.push(`${control.id || control.textContent} covers ${item.textContent.trim()}`);
    const box = at(item.querySelector("rect:last-of-type"));
    for (const text of item.querySelectorAll("text"))
      if (at(text).left < box.left - 1 || at(text).right > box.right + 1) found.push(`the label ${text.textContent} is wider than its box`);
  }
  return found;
})()"""  # noqa: E501
_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def check(page: Path, axe: str, browser: Browser, shots: Path | None = None) -> Iterator[str]:
    """Yield what is wrong with a page, a line each.

    Args:
        page: The file.
        axe: Text of axe-core.
        browser: What opens it.
        shots: Folder for pictures of it; None for none.
    """
    for width in WIDTHS:
        for scheme in SCHEMES:
            where = f"{page} ({scheme}, {width})"
            browser.open(page, WIDTHS[width], scheme)
            if shots is not None:
                browser.shoot(shots / f"{page.stem}-{width}-{scheme}.png", whole=True)
            wide = browser.evaluate(_WIDE)
            if width == "phone" and wide > 1:
                yield f"{where}: {wide} pixels wider than the screen"
            yield from (f"{where}: {fault}" for fault in browser.evaluate(_LAYOUT))
            browser.evaluate(axe)
            for name, told, count, first in browser.evaluate(_AXE):
                yield f"{where}: {name}: {told} ({count}): {first}"


def main() -> int:
    """Check the pages; return 1 if there is a fault, 2 if they cannot be checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--axe", required=True, type=Path, help="axe.min.js of axe-core")
    parser.add_argument("--shots", type=Path, help="folder for pictures of the pages")
    given = parser.parse_args()
    path = find_chromium()
    if path is None:
        print("there is no Chromium on the PATH")
        return 2
    axe = given.axe.read_text("utf-8")
    if given.shots is not None:
        given.shots.mkdir(parents=True, exist_ok=True)
    with Browser(path) as browser:
        faults = [
            fault for page in given.pages for fault in check(page, axe, browser, given.shots)
        ]
    print("\n".join(faults) or f"{len(given.pages)} pages, nothing found")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
