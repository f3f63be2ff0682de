"""Headless Chromium, driven through a pipe by the Chrome DevTools Protocol: opens a file as one kind of reader sees it, and tells what it did."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One process. Each `open` is a new tab."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (there_in, to_write), (to_read, there_out) = os.pipe(), os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                 "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
                 f"--user-data-dir={self.folder.name}", "about:blank"]

        def pipes():  # it reads from 3 and writes to 4
            reads, writes = os.dup(there_in), os.dup(there_out)
            os.dup2(reads, 3)
            os.dup2(writes, 4)
        self.process = subprocess.Popen([find(), *flags], preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(there_in)
        os.close(there_out)
        self.to_write, self.to_read = to_write, to_read
        self.number, self.buffer, self.events = 0, b"", []

    def close(self):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            self.process.kill()
        self.process.wait(20)
        os.close(self.to_write)
        os.close(self.to_read)
        self.folder.cleanup()

    def message(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready = select.select([self.to_read], [], [], max(0, deadline - time.monotonic()))[0]
            data = os.read(self.to_read, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message(60)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait(self, method, session):
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    return
            self.events.append(self.message(60))

    def open(self, path, width=1280, height=900, scheme="light", media="", script=True):
        return Tab(self, path, width, height, scheme, media, script)


class Tab:
    def __init__(self, browser, path, width, height, scheme, media, script):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target, self.session = target, browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        browser.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        browser.wait("Page.loadEventFired", self.session)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode={"Tab": 9, "ArrowLeft": 37, "ArrowRight": 39}[name])

    def troubles(self):
        """What a console would show, and requests for anything but the page and what is written in it."""
        self.value("0")  # all that came before is then in the events
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, about = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"):
                found.append((method, json.dumps(about)[:300]))
            if method == "Log.entryAdded":
                found.append((method, about["entry"]["text"]))
            if method == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("file:", "data:")):
                found.append((method, about["request"]["url"]))
        files = [e["params"]["request"]["url"] for e in self.browser.events
                 if e.get("method") == "Network.requestWillBeSent" and e.get("sessionId") == self.session and e["params"]["request"]["url"].startswith("file:")]
        if len(files) != 1:
            found.append(("files", files))
        return found

    def picture(self, whole=False, scale=1.0):
        """The bytes of a PNG file."""
        options = {}
        if whole or scale != 1:
            size = self.call("Page.getLayoutMetrics")["cssContentSize" if whole else "cssVisualViewport"]
            options = {"clip": {"x": 0, "y": 0, "width": size.get("width") or size["clientWidth"], "height": size.get("height") or size["clientHeight"], "scale": scale}}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **options)["data"])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
