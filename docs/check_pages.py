"""Check pages by axe in Chromium: ``python docs/check_pages.py --axe AXE.JS PAGE...``.

Each page is opened in light and dark, as wide as a desk's screen and as a phone's, without the
network. What axe finds (contrast, headings, names, ...) is printed, and the exit code is 1.
``make pages`` fetches axe-core, makes the pages, and checks them all.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
SCHEMES = {"light": 1, "dark": 0}
_SECONDS = 120
_RUN = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => {
  const report = document.createElement("script");
  report.type = "application/json";
  report.id = "axe-report";
  report.textContent = JSON.stringify({
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    violations: found.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html)})),
  }).replaceAll("<", "\\\\u003c");
  document.body.append(report);
});
"""  # noqa: E501


def check(page: Path, axe: str, browser: str) -> Iterator[str]:
    """Yield what axe finds on a page, a line each, and whether it is wider than a phone."""
    text = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8")
    )
    axe = axe.replace("</script", "<\\/script")
    scripts = f"<script>{axe}</script><script>{_RUN}</script>"
    with tempfile.NamedTemporaryFile(
        "w", suffix=".html", dir=page.parent, prefix=".axe-", encoding="utf-8"
    ) as copy:
        head, end, tail = text.rpartition("</body>")
        copy.write(f"{head}{scripts}{end}{tail}")
        copy.flush()
        for width in WIDTHS:
            for scheme in SCHEMES:
                found = _run(Path(copy.name), browser, width, scheme)
                where = f"{page} ({scheme}, {width})"
                if found is None:
                    yield f"{where}: axe did not end"
                    continue
                if found["dark"] != (scheme == "dark"):
                    yield f"{where}: the browser did not take the colour scheme"
                if width == "phone" and found["wide"] > 1:
                    yield f"{where}: {found['wide']} pixels wider than the screen"
                for fault in found["violations"]:
                    count, first = len(fault["nodes"]), fault["nodes"][0][:160]
                    yield f"{where}: {fault['id']}: {fault['help']} ({count}): {first}"


def _run(page: Path, browser: str, width: str, scheme: str) -> dict[str, Any] | None:
    size = ",".join(map(str, WIDTHS[width]))
    with tempfile.TemporaryDirectory() as profile:
        words = [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", f"--window-size={size}", "--dump-dom"),
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            *("--virtual-time-budget=20000", "--allow-file-access-from-files", page.as_uri()),
        ]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    found = re.search(r'id="axe-report">(.*?)</script>', done.stdout, re.S)
    return None if found is None else dict(json.loads(found[1]))


def main() -> int:
    """Check the pages; return 1 if there is a fault, 2 if they cannot be checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--axe", required=True, type=Path, help="axe.min.js of axe-core")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    given = parser.parse_args()
    browser = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if browser is None:
        print("there is no Chromium on the PATH")
        return 2
    axe = given.axe.read_text("utf-8")
    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(
            pool.map(lambda page: list(check(page.absolute(), axe, browser)), given.pages)
        )
    faults = [fault for one in found for fault in one]
    print("\n".join(faults) or f"{len(given.pages)} pages, nothing found")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
