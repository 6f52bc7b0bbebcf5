"""Take the pictures of pages in ``docs/pictures`` anew: ``make pictures``.

They show runs of the examples in headless Chromium. Times and dates in them differ.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, find_chromium

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
SHOTS = {
    "report": ("digits.html", (1100, 1330), "light"),
    "report-failed": ("failed.html", (1100, 900), "light"),
    "report-phone-dark": ("digits.html", (390, 1300), "dark"),
    "compare": ("compare.html", (1100, 1000), "light"),
    "view": ("view.html", (1200, 760), "light"),
}
_COLOURS = 96
_CLICK = """
const node = document.querySelector('.item.node[aria-label*="Conv"]');
select(node.dataset.id, false);
"""


def main() -> int:
    """Take all pictures; return 2 if there is no browser."""
    chromium = find_chromium()
    if chromium is None:
        print("there is no Chromium on the PATH")
        return 2
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as browser:
        place = Path(folder)
        make_pages(place)
        for name, (page, size, scheme) in SHOTS.items():
            browser.open(place / page, size, scheme)
            if name == "view":
                browser.evaluate(_CLICK)
            file = FOLDER / f"{name}.png"
            browser.shoot(file)
            with Image.open(file) as picture:
                picture.convert("RGB").quantize(_COLOURS).save(file, optimize=True)
    return 0


def make_pages(place: Path) -> None:
    """Write the pages that are shown into a folder."""
    for name in ("digits", "break_adds"):
        shutil.copytree(ROOT / "examples" / name, place / name)
    model, wrong = place / "digits" / "model.onnx", place / "changed.onnx"
    changed = onnx.load(model)
    weight = next(t for t in changed.graph.initializer if t.name == "fc1.bias")
    array = 1.001 * onnx.numpy_helper.to_array(weight)
    weight.CopyFrom(onnx.numpy_helper.from_array(array.astype("float32"), weight.name))
    onnx.save(changed, wrong)
    run = ("-q", "-c", "pipeline.yaml", "model.onnx")
    _run(place / "digits", *run, "-o", "digits.onnx", "--html", place / "digits.html")
    _run(place / "break_adds", *run, "--html", place / "failed.html")
    _run(place / "digits", "view", "model.onnx", "-o", place / "view.html")
    shutil.copy(model, place)
    page = place / "compare.html"
    _run(place, "compare", "model.onnx", "changed.onnx", "--outputs", "all", "--html", page)


def _run(folder: Path, *words: str | Path) -> None:
    command = [sys.executable, "-m", "onnx_passes", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode > 1:  # 1: a failure, which is what is shown
        raise RuntimeError(done.stderr)


if __name__ == "__main__":
    sys.exit(main())
