"""Opens the training page from the disk in headless Chromium and does what a reader does: trains
two attentions, watches their curves move, types a question, saves the models and opens them again.
Checks that an error is told, that keys alone are enough, that nothing sticks out of a phone's screen or a
window, that the page asks for nothing but itself, and that the console stays empty.

Usage: python3 page_test.py headcount.html headcount
Ends with 1 if a check fails, and with 0 after a line "skipped: ..." where the page is not built, or
where Chromium or its chromedriver is not installed.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from browser import Browser, Refused, is_installed, requests

LARGEST = 3_000_000  # bytes of the page
MOVED = ("element click intercepted", "element not interactable", "stale element reference")
PATIENCE = 240  # seconds for anything to happen; a busy machine takes its time
STEPS = 200
WIDTHS = (360, 390, 768, 1300)
TAB, ENTER, RIGHT = "\ue004", "\ue007", "\ue014"  # keys of WebDriver
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # key of a reference (w3.org/TR/webdriver2, 11)
BOARD = "".join(chr(0x2800 + square + 25 * value)  # five pieces, one of them alone in column A
                for square, value in ((0, 2), (6, 1), (13, 3), (16, 0), (24, 1)))

# Elements that stick out to the right, and that no ancestor lets scroll.
STICKING_OUT = """
const scrolls = e => e && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) ||
                           scrolls(e.parentElement));
return [...document.body.querySelectorAll('*')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(e.parentElement) &&
               !e.closest('svg') && getComputedStyle(e).clipPath === 'none')
  .map(e => `${e.tagName} ${e.id}: ${e.textContent.trim().slice(0, 40)}`);
"""

# Curves that leave their picture.
OUTSIDE = """
return [...document.querySelectorAll('.plot')].filter(svg => [...svg.querySelectorAll('path.line')]
  .some(line => { const box = line.getBBox(); return box.x + box.width > svg.viewBox.baseVal.width; }))
  .map(svg => svg.getAttribute('aria-label'));
"""

# Controls without a name for screen readers, and pictures without a description.
NAMELESS = """
const named = e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent.trim() ||
  e.textContent.trim();
return [...document.querySelectorAll('button, input, select, textarea, [tabindex="0"], [role=img]')]
  .filter(e => e.checkVisibility() && !named(e)).map(e => e.outerHTML.slice(0, 100));
"""

# Letters that can hardly be read: contrast below 4.5 with the nearest painted background.
PALE = """
const light = ([r, g, b]) => [r, g, b].map(n => n / 255)
  .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const parts = colour => colour.match(/[\\d.]+/g).map(Number);
const back = e => {
  const colour = parts(getComputedStyle(e).backgroundColor);
  return colour.length === 3 || colour[3] === 1 ? colour : back(e.parentElement);
};
const faults = new Set();
for (const e of document.querySelectorAll('main *')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || !e.checkVisibility() || e.closest(':disabled, svg, option, .unseen')) continue;
  const a = light(parts(getComputedStyle(e).color)), b = light(back(e));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) faults.add(`${e.tagName}.${e.className} ${contrast.toFixed(1)}`);
}
return [...faults];
"""


class Fault(Exception):
    """A check that failed."""


def check(holds, text):
    if not holds:
        raise Fault(text)


class Reader:
    """What a reader does with the page."""

    def __init__(self, browser, page):
        self.browser, self.page = browser, page

    def open(self, settings=None, attentions=()):
        """Opens the page, with the settings of a report's link if they are given."""
        link = ""
        if settings is not None:
            asked = {"settings": settings, "attentions": list(attentions)}
            link = "#settings=" + urllib.parse.quote(json.dumps(asked), safe="")
        self.browser.ask("POST", "/url", {"url": "about:blank"})
        self.browser.ask("POST", "/url", {"url": self.page + link})
        self.until("document.querySelectorAll('.card').length > 1", "the cards appear")

    def until(self, condition, what):
        """Waits for a JavaScript expression to be true."""
        end = time.monotonic() + PATIENCE
        while not self.browser.run(f"return Boolean({condition})"):
            told = "[...document.querySelectorAll('.error')].map(e => e.textContent).join(' ')"
            check(time.monotonic() < end, f"waited in vain until {what}; errors: "
                  f"{self.browser.run(f'return {told}')}")
            time.sleep(0.05)

    def text(self, selector):
        return self.browser.run(
            "return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def texts(self, selector):
        return self.browser.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def set(self, selector, value, event="input", number=0):
        """Gives a control, by its number among those of a selector, a value."""
        self.browser.run("const e = document.querySelectorAll(arguments[0])[arguments[1]]; "
                         "e.value = arguments[2]; e.dispatchEvent(new Event(arguments[3]))",
                         selector, number, value, event)

    def find(self, selector):
        found = self.browser.ask("POST", "/element", {"using": "css selector", "value": selector})
        return f"/element/{found[ELEMENT]}"

    def click(self, selector):
        """Clicks an element, again if the page moved it between looking and clicking."""
        end = time.monotonic() + PATIENCE
        while True:
            self.browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center', "
                             "behavior: 'instant'})", selector)
            try:
                return self.browser.ask("POST", self.find(selector) + "/click", {})
            except Refused as refusal:
                check(refusal.args[0] in MOVED and time.monotonic() < end,
                      f"{selector} cannot be clicked: {refusal}")
                time.sleep(0.05)

    def type(self, selector, text):
        self.browser.ask("POST", self.find(selector) + "/value", {"text": text})

    def press(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.browser.ask("POST", "/actions",
                         {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drop(self, path):
        """Drops a file or a folder of the disk on the page, as a file manager does."""
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.browser.devtools("Input.dispatchDragEvent", type=kind, x=200, y=200, data=data)

    def tab_to(self, selector):
        """Reaches an element by the tabulator alone."""
        for _ in range(80):
            if self.browser.run("return document.activeElement.matches(arguments[0])", selector):
                return
            self.press(TAB)
        raise Fault(f"80 tabs do not lead to {selector}")

    def until_ready(self):
        self.until("!document.getElementById('train').disabled", "training may begin")

    def until_open(self, count, what):
        self.until(f"document.querySelectorAll('.look').length === {count}", what)

    def train(self):
        self.until_ready()
        self.click("#train")
        self.until_trained()

    def until_trained(self):
        self.until("document.getElementById('status').textContent.startsWith('Trained')",
                   "training ends")

    def ask(self, question):
        """What each attention writes after a question, by name."""
        self.browser.run("const p = document.getElementById('prompt'); p.value = ''; "
                         "document.getElementById('looks').dataset.asked = '';")
        self.type("#prompt", question)
        self.click("#ask-form button[type=submit]")
        given = json.dumps(question)
        self.until("(all => all.length && all.every(look => [...look.querySelectorAll('.given')]"
                   f".map(e => e.textContent).join('') === {given}))"
                   "([...document.querySelectorAll('.look')])", "all have answered")
        return self.browser.run(
            "return Object.fromEntries([...document.querySelectorAll('.look')].map(look => "
            "[look.getAttribute('aria-label'), [...look.querySelectorAll('.new')].map(e => "
            "e.textContent.replace('↵', '')).join('')]))")


def saved_by(reader, folder):
    """The archive of lookups that the page saves in a folder."""
    reader.browser.devtools("Browser.setDownloadBehavior", behavior="allow",
                            downloadPath=str(folder))
    reader.click("#save")
    archive, end = folder / "headcount-lookup.zip", time.monotonic() + PATIENCE
    while not archive.exists():
        check(time.monotonic() < end, "nothing is saved")
        time.sleep(0.05)
    return archive


def places_no_sixth_piece(reader):
    before = reader.texts(".square")
    reader.click(".square:not(.piece)")
    check(reader.texts(".square") == before, "a sixth piece moves another one")
    check("All 5 pieces" in reader.text("#board-questions"), "nothing says why no piece is placed")


def asks_through_few_bits(reader):
    # Six tokens of 8 heads' keys and values: two numbers each, in float32 or 2 bits with a scale.
    for place, size in ((5, "144"), (0, "384")):
        reader.set("#ask-sliders input", place, number=2)
        reader.until(f"/^6.rows, {size}.B$/.test(document.querySelector('.filling figcaption')"
                     "?.textContent)", f"the cache of mha has {size} B")


def asks_where_they_differ(reader):
    check(re.fullmatch("Show one that (mha|mqa) gets wrong", reader.text("#differ")),
          f"a question is offered as '{reader.text('#differ')}'")
    wrong = reader.text("#differ").split()[3]
    reader.browser.run("for (const _ of 'ab') document.getElementById('differ').click()")
    said = ("Object.fromEntries([...document.querySelectorAll('.look')].map(e => "
            "[e.getAttribute('aria-label'), e.querySelector('.judgement').textContent]))")
    reader.until(f"(said => said['{wrong}'].includes('wrong') && "
                 f"Object.values(said).some(text => text.includes('right')))({said})",
                 f"{wrong} is wrong and another one right")


def begins_with_a_question(reader):
    """The questions to begin with, and the address, which leads to the same choice."""
    reader.open()
    names = "[...document.querySelectorAll('.card code')].map(e => e.textContent).join()"
    sizes = "[...document.querySelectorAll('.card .bytes strong')].map(e => e.textContent)"
    reader.click("#presets button:nth-child(2)")
    reader.until(f"{names} === 'mqa,mhax4' && new Set({sizes}).size === 1",
                 "four narrow heads have equal bytes")
    text = "to be or not to be, that is the question. " * 40
    reader.click("input[value=own]")
    reader.type("#own", text)
    reader.until("decodeURIComponent(location.hash).includes('not to be') && "
                 "location.hash.includes('mhax4')", "the address has what is chosen")
    address = reader.browser.run("return location.hash")
    reader.browser.ask("POST", "/url", {"url": "about:blank"})
    reader.browser.ask("POST", "/url", {"url": reader.page + address})
    reader.until(f"{names} === 'mqa,mhax4'", "the address leads to the same attentions")
    check(reader.browser.run("return document.getElementById('own').value") == text,
          "the address leads to another text")


def trains_and_answers(reader, work):
    """Returns the archive that the page saved, and answers; tests/page/engine_test.mjs compares saved
    models with the program."""
    reader.open({"data": "lookup", "steps": STEPS}, ["mha", "mqa"])
    reader.until_ready()
    reader.until("/Takes about/.test(document.getElementById('estimate').textContent)",
                 "the page says how long it will take")
    reader.browser.devtools("Emulation.setDeviceMetricsOverride", width=1300, height=900,
                            deviceScaleFactor=1, mobile=False)
    reader.click("#train")
    curve = "document.querySelector('#loss-chart path.line')?.getAttribute('d')"
    reader.until(f"({curve} ?? '').split('L').length > 2", "the curve begins")
    reader.until("['cache', 'answers', 'loss'].every(name => (box => box.top >= 0 && "
                 "box.top < 800)(document.getElementById(`${name}-chart`)"
                 ".getBoundingClientRect()))",
                 "all curves are in view")
    reader.browser.devtools("Emulation.clearDeviceMetricsOverride")
    early = reader.browser.run(f"return {curve}")
    reader.until(f"{curve} !== {json.dumps(early)}", "the curve moves")
    reader.until_trained()
    steps = reader.texts("td.step")
    check(len(steps) == 2 and all(f"{STEPS} of {STEPS}" in text for text in steps),
          f"two attentions with {STEPS} steps are not {steps}")
    marks = len(reader.texts("#cache-chart .mark"))
    check(marks == 2, f"{marks} marks in the chart of right answers against cache, not 2")
    lines = {text.split()[0] for text in reader.texts("#cache-chart .base")}
    check(lines == {"guesser", "copier", "commonest"}, f"baselines are {lines}")
    questions = reader.text("#questions-note")
    check("questions" in questions, f"right answers rest on '{questions}'")
    answers = reader.ask(BOARD + "A")
    shown = reader.texts(".look .judgement")
    check(all(("right" in text) == (answer[0] == "2") for text, answer in
              zip(shown, answers.values())), f"{shown} is said of {answers}; right is 2")
    figures = len(reader.texts(".look .heads figure"))
    check(figures == 8, f"{figures} pictures of heads, not 4 of each attention")
    places_no_sixth_piece(reader)
    asks_through_few_bits(reader)
    asks_where_they_differ(reader)
    check("5 seeds" in reader.text("#more-seeds") and "Another seed" in reader.text("#more-seeds"),
          "another seed is not offered where the verdict says how many it takes")
    archive = saved_by(reader, work)
    reader.click("input[value=tales]")
    check(reader.browser.run("return document.getElementById('watch').hidden && "
                             "document.getElementById('ask').hidden"),
          "results of lookups are shown beside tales")
    with zipfile.ZipFile(archive) as saved:
        check(saved.testzip() is None, "the archive is damaged")
        saved.extractall(work / "saved")
    return archive, answers


def opens_what_it_saved(reader, archive, answers):
    folder = archive.parent / "saved"  # the same, unpacked
    packed = archive.parent / "packed.zip"  # and packed again, as file managers do
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as again:
        for path in sorted(folder.rglob("*")):
            again.write(path, path.relative_to(archive.parent))
    ways = {"dropped unpacked": folder, "packed again": packed}
    for way, path in ways.items():  # the archive itself is opened where the layout is looked at
        reader.open()
        reader.drop(path)
        reader.until_open(2, f"saved models are {way}")
        check(reader.browser.run("return document.querySelector('input[value=lookup]').checked"),
              f"models of lookups, {way}, are shown with another text")
        reader.until("document.querySelector('#loss-chart path.line')", f"{way} models have curves")
        again = reader.ask(BOARD + "A")
        check(again == answers, f"models {way} answer {again}, before they were saved {answers}")


def train(program, run, *flags):
    subprocess.run([program, "train", "--data", "lookup", "--attention", "gqa2", "--steps", "30",
                    "--quiet", "--out", run, *flags], check=True, capture_output=True)


def opens_a_run(reader, program, work):
    """Its answers are those of the program: tests/page/engine_test.mjs compares them."""
    run = work / "run"
    train(program, run)
    reader.open()
    reader.drop(run)
    reader.until_open(1, "a run's folder is dropped")
    names = list(reader.ask(BOARD + "A"))
    check(names == ["gqa2"], f"opened {names}, not gqa2")
    steps = reader.text("#shared .slider output")
    check(steps == "30", f"a run of 30 steps would be trained again with {steps}")
    config = run / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"data": "toString"}))
    reader.open()
    reader.drop(run)
    reader.until_open(1, "a run on toString is dropped")
    check(reader.browser.run("return document.querySelector('input[value=own]').checked"),
          "a text called toString is not the reader's own")


def learns_to_recall(reader):
    """A training that ends when it has learned: its steps are compared, and questions are asked."""
    small = {"symbols": 16, "pairs": 1, "line-length": 4, "context": 16, "dim": 32, "batch": 8}
    reader.open({"data": "recall", **small, "steps": 4000, "eval-every": 20}, ["mha", "mqa"])
    reader.train()
    steps = reader.texts("td.step")
    check(len(steps) == 2 and all(re.search("learned in [1-9]", text) for text in steps),
          f"two attentions that have learned are said to be at {steps}")
    check("Steps to learn" in reader.text("#cache-chart"), "steps to learn are not drawn")
    reader.until("/(right|wrong)/.test(document.querySelector('.look .judgement')?.textContent)",
                 "a question is asked and judged")
    reader.until("/ in \\d+ steps|^nothing can be decided/.test(document.getElementById('verdicts')"
                 ".textContent)", "steps are judged")


def clears_results_of_another_text(reader):
    reader.open({"data": "own", "steps": 2}, ["mha", "mqa"])
    reader.type("#own", "to be or not to be, that is the question. " * 40)
    reader.train()
    reader.type("#own", "!")
    reader.until("document.getElementById('watch').hidden && document.getElementById('ask').hidden",
                 "a changed text has no results")


def saves_two_of_one_name(reader, program, work):
    pair = work / "pair"
    for seed in ("1", "2"):
        train(program, pair / f"seed-{seed}", "--seed", seed, "--kinds", "3")
    reader.open()
    reader.drop(pair)
    reader.until_open(2, "two runs are dropped")
    archive = saved_by(reader, work / "second")
    with zipfile.ZipFile(archive) as saved:
        folders = {name.split("/")[0] for name in saved.namelist() if "/" in name}
    check(folders == {"gqa2", "gqa2-2"}, f"two runs of gqa2 are saved in {folders}")


def tells_which_seeds_diverged(reader):
    reader.open({"data": "lookup", "lr": 100, "min-lr": 100, "warmup": 0, "grad-clip": 0},
                ["mha", "mqa"])
    reader.until_ready()
    reader.set("#seeds input", 1)
    reader.train()
    reader.until("/mha, the reference, has no finished run/.test("
                 "document.getElementById('verdicts').textContent)", "the page says so")
    steps = reader.texts("td.step")
    check(all("2\u00a0seeds diverged: the " in text for text in steps),
          f"attentions that diverged say {steps}")
    check(reader.browser.run("return document.getElementById('save').hidden"),
          "models that diverged can be saved")


def goes_on_after_an_empty_name(reader):
    reader.open({"data": "lookup", "steps": 2}, ["mha", "mqa"])
    reader.until_ready()
    written = ".card input[type=text]"
    reader.set(".card select", "written", "change")
    reader.set(written, "", "change")
    name = reader.browser.run("return document.querySelector(arguments[0]).value", written)
    check(name == "mha", f"an emptied name of mha is '{name}'")
    reader.until_ready()
    check(reader.text("#broken") == "",
          "an empty name breaks the page")


def follows_a_report(reader, page, program, work):
    """The link of a comparison's report; returns the address of the page beside it."""
    folder = work / "compared"
    folder.mkdir()
    shutil.copy(page, folder)
    subprocess.run([program, "compare", "--data", "recall", "--attention", "gqa1,mla24+0", "--layers",
                    "1", "--dim", "32", "--steps", "2", "--seeds", "1", "--intervals", "off",
                    "--quiet", "--out", folder], check=True, capture_output=True)
    reader.browser.ask("POST", "/url", {"url": (folder / "report.html").as_uri()})
    reader.click("a[href^='headcount.html']")
    reader.until("!document.getElementById('train')?.disabled && "
                 "document.querySelectorAll('.card .bytes strong').length === 2", "the link leads on")
    names = reader.texts(".card code")
    check(names == ["gqa1", "mla24+0"], f"a report on gqa1 and mla24+0 leads to {names}")
    check(reader.browser.run("return document.querySelector('input[value=recall]').checked"),
          "a report on recall leads to another text")
    check(reader.text("#link-note") == "", f"the page misses something: {reader.text('#link-note')}")
    steps = reader.text("#shared .slider output")
    check(steps == "2", f"a report on 2 steps leads to {steps}")
    return {(folder / name).as_uri() for name in ("report.html", page.name)}


def counts_a_readers_model(reader, program, work):
    """A config.json that is dropped: the program's numbers, pictures, and sliders that change them."""
    reader.open()
    config = work / "config.json"
    config.write_text(json.dumps({
        "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}))
    reader.drop(config)
    reader.until("document.querySelectorAll('#model-figures svg').length === 2", "it is drawn")
    out = subprocess.run([program, "cost", "--config", config, "--context", "8192"],
                         capture_output=True, text=True, check=True).stdout
    check(reader.text("#model-table") == out, f"the page says {reader.text('#model-table')}")
    reader.set("#model-sliders input", 0, number=1)
    reader.until("document.getElementById('model-table').textContent.includes('16384 B a token')",
                 "one KV head keeps an eighth")
    reader.type("#model-memory", "24GiB")
    reader.until("document.getElementById('model-table').textContent.includes('24 GiB of memory')",
                 "the memory is taken")
    config.write_text('{"model_type": "lama"}')
    reader.drop(config)
    reader.until("/llama/.test(document.getElementById('opened').textContent)",
                 "an unknown model is refused")


def tells_errors_and_goes_on(reader, work):
    reader.open()
    reader.click("input[value=own]")
    reader.type("#own", "x")
    reader.until("document.getElementById('error-of-all').textContent", "a short text is refused")
    text = reader.text("#error-of-all")
    check("text" in text and len(text) > 20, f"the error says '{text}'")
    reader.type("#own", "yz")
    reader.until("/^Your text has 3 characters/.test(document.getElementById('error-of-all')"
                 ".textContent)", "the page says that the text is too short")
    check(not reader.browser.run("return [...document.querySelectorAll('.card .picture, .card "
                                 ".bytes')].some(e => e.checkVisibility())"),
          "caches of another text are shown")
    check(reader.browser.run("return document.getElementById('train').disabled"),
          "a text of one character can be trained on")
    reader.type("#own", "to be or not to be, that is the question. " * 40)
    reader.until_ready()
    reader.click("input[value=lookup]")
    (work / "poem.txt").write_text("to be or not to be, that is the question. " * 8000)
    reader.drop(work / "poem.txt")
    reader.until("/^poem.txt: 336,000/.test(document.getElementById('own-size').textContent)",
                 "a text of 300 kB is dropped")
    reader.until("/Takes about/.test(document.getElementById('estimate').textContent)",
                 "the page says how long it will take")
    (work / "broken.zip").write_text("no archive " * 10)
    reader.drop(work / "broken.zip")
    reader.until("/^Not opened: /.test(document.getElementById('opened').textContent)",
                 "a damaged archive is refused")
    reader.click("input[value=lookup]")
    reader.until("document.getElementById('error-of-all').textContent === '' && "
                 "!document.getElementById('train').disabled", "the page goes on")


def calls_nothing_enough_too_early(reader):
    """Five seeds of models that have learned nothing."""
    reader.open({"data": "lookup", "steps": 2}, ["mla", "mqa"])
    reader.until_ready()
    reader.set("#seeds input", 4)
    reader.train()
    reader.until("/^nothing can be decided: .*; train longer/.test("
                 "document.getElementById('verdicts').textContent)", "the page says so")
    check(reader.browser.run("return document.getElementById('more-seeds').hidden"),
          "a sixth seed is offered, five are the most")
    reader.until("document.querySelectorAll('.look h4').length === 2", "all have answered")
    titles = reader.texts(".look h4")
    check(titles == ["one latent for all", "one KV head for all"], f"heads share {titles}")


def needs_no_mouse(reader):
    reader.open({"data": "lookup", "steps": 3000}, ["mha", "mqa"])
    reader.until_ready()
    reader.tab_to(".card .slider input")
    before = reader.text(".card .bytes")
    reader.press(RIGHT)
    reader.until(f"document.querySelector('.card .bytes').textContent !== {json.dumps(before)}",
                 "a slider changes the cache")
    reader.until_ready()
    reader.tab_to("#train")
    reader.press(ENTER)
    focused = "document.activeElement.id"
    reader.until(f"{focused} === 'pause'", "the button that pauses has the focus")
    reader.until("document.querySelectorAll('.look .new').length === 2",
                 "a question is answered while training goes on")
    check("after" in reader.text(".look .judgement"),
          f"an answer in training is '{reader.text('.look .judgement')}', without its step")
    reader.tab_to("#pause")
    reader.press(ENTER)
    reader.until("document.getElementById('status').textContent === 'Paused.'", "training pauses")
    reader.press(ENTER)
    reader.until("/left/.test(document.getElementById('status').textContent)", "training goes on")
    reader.tab_to("#stop")
    reader.press(ENTER)
    reader.until("document.getElementById('watch').hidden", "training is given up")
    reader.until(f"{focused} === 'train'", "the button that trains has the focus")


def layout_faults(reader, archive):
    """Faults of a page that shows everything, in all widths and both schemes."""
    browser = reader.browser
    for scheme in ("light", "dark"):
        browser.devtools("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": scheme}])
        reader.open()
        reader.type("#open-files", str(archive))
        reader.until("document.querySelectorAll('.look .heads figure').length > 1", "models open")
        browser.run("for (const e of document.querySelectorAll('details')) e.open = true;")
        for width in WIDTHS:
            browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=800,
                             deviceScaleFactor=1, mobile=width < 700)
            wide = browser.run("return document.documentElement.scrollWidth")
            if wide > width:
                yield f"{scheme}: {wide} units wide, {width} is the screen"
            for fault in browser.run(STICKING_OUT):
                yield f"{scheme}, {width} units wide: sticks out: {fault}"
        for fault in browser.run(OUTSIDE):
            yield f"a curve leaves its chart: {fault}"
        for fault in browser.run(PALE):
            yield f"{scheme}: can hardly be read: {fault}"
        for fault in browser.run(NAMELESS):
            yield f"no name for screen readers: {fault}"
    browser.devtools("Emulation.clearDeviceMetricsOverride")


def faults(browser, file, program, work):
    page = file.resolve().as_uri()
    reader, own = Reader(browser, page), {page, "about:blank"}
    try:
        archive, answers = trains_and_answers(reader, work)
        opens_what_it_saved(reader, archive, answers)
        opens_a_run(reader, program, work)
        begins_with_a_question(reader)
        learns_to_recall(reader)
        clears_results_of_another_text(reader)
        saves_two_of_one_name(reader, program, work)
        tells_which_seeds_diverged(reader)
        goes_on_after_an_empty_name(reader)
        own |= follows_a_report(reader, file, program, work)
        counts_a_readers_model(reader, program, work)
        tells_errors_and_goes_on(reader, work)
        calls_nothing_enough_too_early(reader)
        needs_no_mouse(reader)
        yield from layout_faults(reader, archive)
    except Fault as fault:
        yield str(fault)
    asked = {url.split("#")[0] for url in requests(browser.log("performance"))}
    if page not in asked:
        yield f"the log of requests lacks the page itself: {asked}"
    for url in asked - own:
        if not url.startswith(("blob:", "data:")):  # its own memory
            yield f"asks for {url}"
    for entry in browser.log("browser"):
        yield f"console: {entry['message']}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    page, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not page.exists():
        print(f"skipped: {page} is not built; train/page/build.sh says what it needs")
        return
    if not is_installed():
        print("skipped: chromium or chromium-driver is not installed")
        return
    with tempfile.TemporaryDirectory() as work, Browser() as browser:
        found = list(faults(browser, page, program, pathlib.Path(work)))
    if page.stat().st_size > LARGEST:
        found.append(f"{page.stat().st_size} bytes, {LARGEST} are enough")
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
