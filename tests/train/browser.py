"""Headless Chromium for tests of pages, driven over the WebDriver protocol (w3.org/TR/webdriver2)."""
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

TIMEOUT = 60  # seconds a request; a busy machine takes some to start a browser

# What sticks out of a page `arguments[0]` wide where no ancestor lets it scroll, and letters that
# can hardly be read: contrast below 4.5 (w3.org/TR/WCAG22) with the nearest painted background.
LAYOUT = """
const faults = new Set(), [width] = arguments, style = e => getComputedStyle(e);
const scrolls = e => e && (/auto|scroll|hidden/.test(style(e).overflowX) ||
                           scrolls(e.parentElement));
const parts = colour => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(n => n / 255)
  .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0.05);
const back = e => {
  const colour = parts(style(e).backgroundColor);
  return colour.length === 3 || colour[3] === 1 ? colour : back(e.parentElement);
};
if (document.documentElement.scrollWidth > width) faults.add('the page is too wide');
for (const e of document.body.querySelectorAll('*')) {
  const name = `${e.tagName} ${e.id} ${e.className}: ${e.textContent.trim().slice(0, 40)}`;
  if (e.closest('svg, option, .unseen') || !e.checkVisibility()) continue;
  if (e.getBoundingClientRect().right > width + 0.5 && !scrolls(e.parentElement))
    faults.add(`sticks out: ${name}`);
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  const [pale, dark] = [light(parts(style(e).color)), light(back(e))].sort((a, b) => b - a);
  if (own && !e.closest(':disabled') && pale / dark < 4.5)
    faults.add(`contrast ${(pale / dark).toFixed(1)}: ${name}`);
}
return [...faults];
"""


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

    def screen(self, width=0, height=0):
        """Gives the screen a size, narrow ones as those of phones, or its own again."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=2 if width else 0, mobile=0 < width < 700)

    def media(self, scheme, kind=""):
        """Shows pages in a colour scheme, on a screen or in print."""
        self.devtools("Emulation.setEmulatedMedia", media=kind,
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def faults(self, page, allowed=()):
        """Since the last call: lines of the console, and what was asked for but a page, what is
        allowed, and the page's own memory."""
        faults, asked = [], set()
        for entry in self.ask("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.add(message["params"]["request"]["url"].split("#")[0])
        if page not in asked:
            faults.append(f"the log of requests lacks {page}: {asked}")
        faults += [f"asks for {url}" for url in asked - {page, "about:blank", *allowed}
                   if not url.startswith(("blob:", "data:"))]
        return faults + [f"console: {entry['message']}"
                         for entry in self.ask("POST", "/se/log", {"type": "browser"})]
