"""Headless Chromium for tests of pages, driven over the WebDriver protocol (w3.org/TR/webdriver2)."""
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

TIMEOUT = 60  # seconds a request; a busy machine takes some to start a browser


def is_installed():
    """True if Chromium and its chromedriver are."""
    return bool(shutil.which("chromedriver") and shutil.which("chromium"))


class Refused(Exception):
    """A command that the browser refused: the protocol's name of the error, and a line."""


class Browser:
    """A browser for a `with` statement."""

    def __enter__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        # Connects directly, not through a proxy that the environment may name.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.session = None
        try:
            for line in self.driver.stdout:
                if started := re.search(r"started successfully on port (\d+)", line):
                    break
            else:
                raise RuntimeError("chromedriver does not start")
            self.root = f"http://127.0.0.1:{started[1]}/session"
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu",
                         "--disable-dev-shm-usage"]
            options = {"goog:chromeOptions": {"args": arguments},
                       "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
            answer = self.ask("POST", "", {"capabilities": {"alwaysMatch": options}})
            self.session = answer["sessionId"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        try:
            if self.session:
                self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def ask(self, method, path, body=None):
        root = f"{self.root}/{self.session}" if self.session else self.root
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(root + path, data, {"Content-Type": "application/json"},
                                         method=method)
        try:
            with self.opener.open(request, timeout=TIMEOUT) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as refusal:
            told = json.load(refusal)["value"]
            raise Refused(told["error"], told["message"].splitlines()[0]) from None

    def devtools(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.ask("POST", "/se/log", {"type": kind})

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": arguments})


def requests(entries):
    """The addresses that a page asked for, from the browser's performance log."""
    for entry in entries:
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]
