"""What a reader does with the training page, as a test case: opens it, clicks, types, drops files
and waits. Each test ends with an empty console, and has asked for nothing but the page."""
import json
import pathlib
import re
import sys
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from browser import LAYOUT, Browser, Refused, is_installed

MOVED = ("element click intercepted", "element not interactable", "stale element reference")
PATIENCE = 240  # seconds for anything to happen; a busy machine takes its time
TAB, ENTER, RIGHT = "\ue004", "\ue007", "\ue014"  # keys of WebDriver
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # key of a reference (w3.org/TR/webdriver2, 11)

# What expressions of tests may call.
SHORTHANDS = """
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const $ = (selector, within = document) => within.querySelector(selector);
const texts = (selector, within = document) => $$(selector, within).map(e => e.textContent);
"""


class Reader(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(Browser())

    def setUp(self):
        self.allowed = []

    def tearDown(self):
        self.assertEqual(self.browser.faults(self.page, self.allowed), [])

    def see(self, expression, *arguments):
        """Value of a JavaScript expression."""
        return self.browser.run(f"{SHORTHANDS} return {expression}", *arguments)

    def texts(self, selector):
        return self.see("texts(arguments[0])", selector)

    def text(self, selector):
        return "\n".join(self.texts(selector))

    def is_hidden(self, selector):
        return self.see("(all => all.length > 0 && !all.some(e => e.checkVisibility()))"
                        "($$(arguments[0]))", selector)

    def chosen_text(self):
        return self.see("$('#texts input:checked').value")

    def wait(self, attempt, what):
        """Waits for `attempt` to return something true."""
        end = time.monotonic() + PATIENCE
        while not attempt():
            if time.monotonic() > end:
                self.fail(f"waited in vain until {what}; errors: {self.text('.error')}")
            time.sleep(0.05)

    def until(self, expression, what, *arguments):
        self.wait(lambda: self.see(f"Boolean({expression})", *arguments), what)

    def until_text(self, selector, pattern):
        """Waits for a regular expression to be found in the texts of elements, one a line."""
        self.wait(lambda: re.search(pattern, self.text(selector), re.MULTILINE),
                  f"{selector} says '{pattern}'")

    def until_texts(self, selector, wanted):
        self.wait(lambda: self.texts(selector) == wanted, f"{selector} says {wanted}")

    def until_count(self, selector, count):
        self.wait(lambda: len(self.texts(selector)) == count, f"there are {count} of {selector}")

    def until_ready(self):
        self.until("!$('#train').disabled", "training may begin")

    def until_trained(self):
        self.until_text("#status", "^Trained")

    def go(self, address):
        self.browser.ask("POST", "/url", {"url": "about:blank"})
        self.browser.ask("POST", "/url", {"url": address})

    def open(self, attentions=(), **settings):
        """Opens the page, with the settings of a report's link if they are given."""
        asked = {"settings": settings, "attentions": attentions}
        link = "#settings=" + urllib.parse.quote(json.dumps(asked), safe="") if settings else ""
        self.go(self.page + link)
        self.until("$$('.card').length > 1", "the cards appear")
        if settings.get("data") != "own":
            self.until_ready()

    def set(self, selector, value, event="input", number=0):
        """Gives a control, by its number among those of a selector, a value."""
        self.see("(e => { e.value = arguments[2]; e.dispatchEvent(new Event(arguments[3])); })"
                 "($$(arguments[0])[arguments[1]])", selector, number, value, event)

    def find(self, selector):
        found = self.browser.ask("POST", "/element", {"using": "css selector", "value": selector})
        return f"/element/{found[ELEMENT]}"

    def click(self, selector):
        """Clicks an element, again if the page moved it between looking and clicking."""
        def clicked():
            self.see("$(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})",
                     selector)
            try:
                self.browser.ask("POST", self.find(selector) + "/click", {})
                return True
            except Refused as refusal:
                self.assertIn(refusal.args[0], MOVED, selector)
                return False
        self.wait(clicked, f"{selector} is clicked")

    def type(self, selector, text):
        self.browser.ask("POST", self.find(selector) + "/value", {"text": text})

    def press(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.browser.ask("POST", "/actions",
                         {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drop(self, path, selector="header"):
        """Drops a file or a folder of the disk on an element, as a file manager does."""
        x, y = self.see("(e => { e.scrollIntoView({block: 'center', behavior: 'instant'}); "
                        "const {x, y, width, height} = e.getBoundingClientRect(); "
                        "return [x + width / 2, y + height / 2]; })($(arguments[0]))", selector)
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.browser.devtools("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def tab_to(self, selector):
        """Reaches an element by the tabulator alone."""
        for _ in range(80):
            if self.see("document.activeElement.matches(arguments[0])", selector):
                return
            self.press(TAB)
        self.fail(f"80 tabs do not lead to {selector}")

    def train(self):
        self.until_ready()
        self.click("#train")
        self.until_trained()

    def ask(self, question):
        """What each attention writes after a question, by name."""
        self.see("$('#prompt').value = ''")
        self.type("#prompt", question)
        self.click("#ask-form button[type=submit]")
        self.until("$$('.look').length && $$('.look').every(look => texts('.given', look).join('')"
                   " === arguments[0])", "all have answered", question)
        return self.see("Object.fromEntries($$('.look').map(look => "
                        "[look.getAttribute('aria-label'), texts('.new', look).join('')"
                        ".replaceAll('↵', '')]))")

    def save(self, folder):
        """Returns the archive of lookups that the page saves in a folder."""
        self.browser.devtools("Browser.setDownloadBehavior", behavior="allow",
                              downloadPath=str(folder))
        self.click("#save")
        archive = folder / "headcount-lookup.zip"
        self.wait(archive.exists, "models are saved")
        return archive
