"""Headless Chromium, driven over a pipe: opens pages as a desk or a phone shows them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
_SECONDS = 120
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of Chromium; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """A browser with one page, without the network.

    A window is at least 500 pixels wide in Chromium, a phone is not: its sizes are emulated.

    Args:
        path: The program.
    """

    def __init__(self, path: str) -> None:
        """Start it."""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, ours = os.pipe(), os.pipe()
        words = [
            *(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", "about:blank"),
        ]
        # Chromium reads commands from 3 and writes answers to 4.
        script = f'exec "$@" 3<&{theirs[0]} 4>&{ours[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=(theirs[0], ours[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._commands, self._answers = os.fdopen(theirs[1], "wb", 0), os.fdopen(ours[0], "rb")
        self._count, self._events, self._session = 0, [""], {}
        targets = self._call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self._call("Page.enable")
        self._call("Page.setBypassCSP", enabled=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        with contextlib.suppress(OSError, EOFError):
            self._session = {}
            self._call("Browser.close")
        try:
            self._process.wait(_SECONDS)
        finally:
            self._process.kill()
            self._commands.close()
            self._answers.close()
            self._profile.cleanup()

    def open(self, page: Path, size: tuple[int, int], scheme: str) -> None:
        """Open a file.

        Args:
            page: The file.
            size: Width and height in pixels; up to 600 wide it is a phone.
            scheme: "light" or "dark".
        """
        wide, high = size
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=wide,
            height=high,
            deviceScaleFactor=1,
            mobile=wide <= 600,
        )
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=wanted)
        self._events.clear()
        self._call("Page.navigate", url=page.absolute().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._read()

    def evaluate(self, script: str) -> Any:
        """Return what a script, or the promise that it gives, ends with."""
        found = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def shoot(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen as a PNG.

        Args:
            file: Where to.
            whole: Whether the whole page is shown, instead of what the device shows.
        """
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"clip": {**size, "x": 0, "y": 0, "scale": 1}} if whole else {}
        found = self._call("Page.captureScreenshot", captureBeyondViewport=whole, **clip)
        file.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        self._count += 1
        told = {"id": self._count, "method": method, "params": params, **self._session}
        self._commands.write(json.dumps(told).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        answer = json.loads(bytes(self._bytes()))
        self._events.append(answer.get("method", ""))
        return dict(answer)

    def _bytes(self) -> Iterator[int]:
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                raise EOFError("Chromium ended")
            yield byte[0]
