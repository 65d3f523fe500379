"""Chromium without a window, asked by pipes: no package besides the standard library."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-pipe", "--hide-scrollbars", "about:blank"),
)
PATIENCE = 60.0


def executable() -> str | None:
    """Path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser; `events` are what it told while commands waited."""

    def __init__(self, profile: Any) -> None:
        read, self._write = os.pipe()  # commands: its file 3
        self._read, write = os.pipe()  # answers: its file 4

        def wire() -> None:
            # Copies first: one of the two may be in the place of the other.
            commands, answers = os.dup(read), os.dup(write)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self._process = subprocess.Popen(
            [str(executable()), f"--user-data-dir={profile}", *OPTIONS],
            preexec_fn=wire,
            pass_fds=(3, 4, read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self.events: list[dict[str, Any]] = []
        self._rest, self._number, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command; what the browser tells meanwhile goes to `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda told: told.get("id") == self._number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def go(self, url: str, width: int, height: int = 900) -> None:
        """Load a page in a window of this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.events.clear()
        self.call("Page.navigate", url=url)
        if not any(told.get("method") == "Page.loadEventFired" for told in self.events):
            self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript, or the promise that it is, gives."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        return self.call("Runtime.evaluate", **asked)["result"].get("value")

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        sent = [told for told in self.events if told.get("method") == "Network.requestWillBeSent"]
        return [told["params"]["request"]["url"] for told in sent]

    def errors(self) -> list[str]:
        """Errors that the page wrote to its console, and uncaught ones."""
        found = []
        for told in self.events:
            params = told.get("params", {})
            if told.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("text")))
            elif told.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return found

    def close(self) -> None:
        with suppress(OSError, RuntimeError):
            self._session = None
            self.call("Browser.close")
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)
        os.close(self._write)
        os.close(self._read)

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while b"\0" in self._rest:
                text, _, self._rest = self._rest.partition(b"\0")
                told = json.loads(text)
                self.events.append(told)
                if wanted(told):
                    return told
            more = os.read(self._read, 1 << 20)
            if not more:
                raise RuntimeError("The browser has ended.")
            self._rest += more
        raise TimeoutError("The browser does not answer.")
