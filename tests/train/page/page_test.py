"""Opens the training page from the disk in headless Chromium and does what a reader does: trains
attentions, watches their curves move, asks, saves the models and opens them again. Checks that
errors are told, that keys alone are enough, that letters can be read and controls have names, and
that nothing sticks out of a phone's screen or a window.

Usage: python3 page_test.py headcount.html headcount [OPTION OF UNITTEST]...
Ends with 1 if a check fails, and with 0 after a line "skipped: ..." where the page is not built, or
where Chromium or its chromedriver is not installed.
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from reader import ENTER, LAYOUT, RIGHT, Reader, is_installed

LARGEST = 3_000_000  # bytes of the page
STEPS = 200
BOARD = "".join(chr(0x2800 + square + 25 * value)  # five pieces, one of them alone in column A
                for square, value in ((0, 2), (6, 1), (13, 3), (16, 0), (24, 1)))
POEM = "to be or not to be, that is the question. "
PAIR = ["mha", "mqa"]
SMALL = {"data": "lookup", "directions": 2, "heads": 4, "head-dim": 2, "lr": 2e-3,
         "stop-at-answers": 0}  # learned in part

# Controls without a name for screen readers, and pictures without a description.
NAMELESS = """
const named = e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent.trim() ||
  e.textContent.trim();
return [...document.querySelectorAll('button, input, select, textarea, [tabindex="0"], [role=img]')]
  .filter(e => e.checkVisibility() && !named(e)).map(e => e.outerHTML.slice(0, 100));
"""


class Page(Reader):
    def setUp(self):
        super().setUp()
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def program(self, *arguments):
        """What the program prints."""
        return subprocess.run([self.headcount, *map(str, arguments)], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def test_models_answer_and_come_back_from_an_archive(self):
        # tests/page/engine_test.mjs compares saved models and answers with the program.
        self.assertLess(self.file.stat().st_size, LARGEST)
        self.open(PAIR, **SMALL, steps=STEPS)
        self.until_text("#estimate", "Takes about")
        self.watch_training()
        answers = self.ask(BOARD + "A")
        for judged, answer in zip(self.texts(".look .judgement"), answers.values(), strict=True):
            self.assertEqual("right" in judged, answer[0] == "2", judged)
        self.assertEqual(len(self.texts(".look .heads figure")), 8, "four heads of each attention")
        self.asks_otherwise()
        self.assertRegex(self.text("#verdicts"), "takes 5 seeds.* this is 1\u00a0seed")
        self.assertRegex(self.text("#more-seeds"), "Another seed")
        archive = self.save(self.work)
        self.click("input[value=tales]")
        self.assertTrue(self.is_hidden("#watch, #ask"), "results of lookups beside tales")
        self.opens_again(archive, answers)
        self.looks_good(archive)

    def watch_training(self):
        self.browser.screen(1300, 900)
        self.click("#train")
        curve = "$('#loss-chart path.line')?.getAttribute('d')"
        self.until(f"({curve} ?? '').split('L').length > 2", "the curve begins")
        self.until("(tops => tops.length === 3 && tops.every(top => top > 0 && top < 800))"
                   "($$('.charts > [id$=-chart]').map(e => e.getBoundingClientRect().top))",
                   "all curves are in view")
        self.browser.screen()
        self.until(f"{curve} !== arguments[0]", "the curve moves", self.see(curve))
        self.until_trained()
        for steps in self.texts("td.step"):
            self.assertIn(f"{STEPS} of {STEPS}", steps)
        self.assertEqual(len(self.texts("td.step")), 2)
        self.assertEqual(len(self.texts("#cache-chart .mark")), 2)
        self.assertEqual({text.split()[0] for text in self.texts("#cache-chart .base")},
                         {"guesser", "copier", "commonest"})
        self.assertIn("questions", self.text("#questions-note"))

    def asks_otherwise(self):
        pieces = self.texts(".square")
        self.click(".square:not(.piece)")
        self.assertEqual(self.texts(".square"), pieces, "a sixth piece moves another one")
        self.assertIn("All 5 pieces", self.text("#board-questions"))
        # Six tokens, 8 heads, keys and values of two numbers: float32, or 2 bits and a scale.
        for place, size in ((5, 144), (0, 384)):
            self.set("#ask-sliders input", place, number=2)
            self.until_text(".filling figcaption", f"^6.rows of keys and values, {size}.B$")
        self.assertRegex(self.text("#differ"), "^Show one that (mha|mqa) gets wrong$")
        wrong = self.text("#differ").split()[3]
        self.see("[1, 2].forEach(() => $('#differ').click())")
        self.until("$$('.look').some(look => look.getAttribute('aria-label') === arguments[0] && "
                   "texts('.judgement', look)[0].includes('wrong')) && "
                   "texts('.judgement').some(text => text.includes('right'))",
                   f"{wrong} is wrong and the other one right", wrong)

    def opens_again(self, archive, answers):
        """Opens a saved archive unpacked, and packed as file managers do."""
        folder, packed = self.work / "saved", self.work / "packed.zip"
        with zipfile.ZipFile(archive) as saved:
            self.assertIsNone(saved.testzip(), "the archive is damaged")
            saved.extractall(folder)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as again:
            for path in sorted(folder.rglob("*")):
                again.write(path, path.relative_to(self.work))
        for path in (folder, packed):
            self.open()
            self.drop(path)
            self.until_count(".look", 2)
            self.assertEqual(self.chosen_text(), "lookup")
            self.until("$('#loss-chart path.line')", "opened models have curves")
            self.assertEqual(self.ask(BOARD + "A"), answers, path)

    def looks_good(self, archive):
        """Shows everything, in all widths and both schemes."""
        for scheme in ("light", "dark"):
            self.browser.media(scheme)
            self.open()
            self.type("#open-files", str(archive))
            self.until_texts("#opened", ["Opened mha, mqa."])
            self.see("$$('details').forEach(e => { e.open = true; })")
            for width in (360, 390, 768, 1300):
                self.browser.screen(width, 800)
                with self.subTest(scheme=scheme, width=width):
                    self.assertEqual(self.browser.run(LAYOUT, width), [])
        self.assertEqual(self.browser.run(NAMELESS), [], "has no name for screen readers")
        self.browser.screen()

    def test_it_opens_with_a_question_that_one_model_gets_wrong(self):
        self.open()
        self.until_text(".look .judgement", "wrong")
        judged = self.see("Object.fromEntries($$('.look').map(look => "
                          "[look.getAttribute('aria-label'), texts('.judgement', look)[0][0]]))")
        self.assertEqual(list(judged), ["gqa4x8", "mqax32", "mqax32:qk-norm=on"])
        self.assertEqual(judged["mqax32"], "✗")
        self.assertIn("✓", judged.values())
        self.assertRegex(self.text("#ask-note"), "gqa4x8 has learned .* mqax32 has not in 1,600")
        self.until_text("[aria-label=mqax32] .looking",
                        "^Its heads look most at (a wrong piece|., which is no piece)")
        self.assertIn("A verdict takes 5 seeds", self.text("#verdicts"))
        self.assertEqual(len(self.texts(".letters button")), 30)
        self.set("#board-questions input", 1)  # two directions
        self.assertEqual("".join(self.texts(".letters button")), "ABCDEFGHIJ")
        self.until_ready()
        self.assertEqual(self.see("location.hash"), "", "the address hides what the page opens with")
        self.click("#cards .plain")  # one attention less: the address names the others
        self.until("location.hash.includes('qk-norm')", "the address has what is chosen")

    def test_a_question_to_begin_with_is_in_the_address(self):
        self.open()
        self.click("#presets button")
        self.until_texts(".card code", ["gqa4x8", "mqax32"])
        self.until("new Set(texts('.card .bytes strong')).size === 1", "the bytes are equal")
        self.click("input[value=own]")
        self.type("#own", POEM * 40)
        self.until("['not to be', 'mqax32'].every(part => decodeURIComponent(location.hash)"
                   ".includes(part))", "the address has what is chosen")
        self.go(self.page + self.see("location.hash"))
        self.until_texts(".card code", ["gqa4x8", "mqax32"])
        self.assertEqual(self.see("$('#own').value"), POEM * 40)

    def test_runs_of_the_program_open_and_those_of_one_name_are_saved(self):
        for seed in (1, 2):
            self.program("train", "--data", "lookup", "--directions", 3, "--attention", "gqa2",
                         "--steps", 30, "--quiet", "--seed", seed, "--out", self.work / f"{seed}")
        self.open()
        self.drop(self.work)
        self.until_count(".look", 2)
        self.assertEqual(list(self.ask(BOARD + "A")), ["gqa2"])
        self.assertEqual(self.texts("#shared .slider output")[0], "30", "steps to train again")
        with zipfile.ZipFile(self.save(self.work)) as saved:
            folders = {name.split("/")[0] for name in saved.namelist() if "/" in name}
        self.assertEqual(folders, {"gqa2", "gqa2-2"})
        record = self.work / "1/run.json"
        run = json.loads(record.read_text())
        run["settings"]["data"] = "toString"
        record.write_text(json.dumps(run))
        self.open()
        self.drop(self.work / "1")
        self.until_count(".look", 1)
        self.assertEqual(self.chosen_text(), "own")

    def test_a_checkpoint_of_recall_brings_its_text_along(self):
        self.program("train", "--data", "recall", "--attention", "mqa", "--symbols", 32, "--steps",
                     10, "--quiet", "--out", self.work / "run")
        self.open()
        self.click("input[value=own]")
        self.drop(self.work / "run/checkpoints/step-10")
        self.until_count(".look", 1)
        self.assertEqual(self.chosen_text(), "recall")
        self.until_texts("#opened", ["Opened mqa."])
        self.assertEqual(len(self.texts("#chips button")), 6, "questions of its text")
        self.until_text(".look .judgement", "right|wrong")
        self.until_ready()

    def test_messages_stand_where_files_were_dropped_and_go(self):
        damaged, config = self.work / "damaged.zip", self.work / "config.json"
        damaged.write_text("no archive")
        config.write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2,
                                      "hidden_size": 64, "num_attention_heads": 4}))
        self.open()
        for block in ("#cards", "#model-block"):
            self.drop(damaged, block)
            self.until("$('#opened').previousElementSibling.matches(arguments[0]) && "
                       "$('#opened').textContent.startsWith('Not opened: ')",
                       f"{block} has the message below", block)
        self.drop(config)
        self.until_texts("#opened", [""])
        self.until_count("#model-figures svg", 2)
        self.assertEqual(self.see("[...new Set($$('.charts > *, .scroll pre').map("
                                  "e => getComputedStyle(e).padding))].length"), 1, "paddings")

    def test_losses_are_drawn_with_that_of_a_uniform_guess(self):
        self.open(PAIR, data="own", steps=60, layers=1, dim=16, context=16)
        self.type("#own", POEM * 40)
        self.train()
        self.assertEqual(len(self.texts("#validation-chart .line")), 2)
        symbols = len(set(POEM))
        self.assertIn(f"uniform guess {math.log(symbols):.2f}", self.text("#validation-chart"))
        self.assertLess(self.see("$('#ask').getBoundingClientRect().top - "
                                 "$('.charts').getBoundingClientRect().bottom"), 100, "a gap")

    def test_a_training_ends_when_it_has_learned_to_recall(self):
        self.open(PAIR, **{"data": "recall", "symbols": 16, "pairs": 1, "line-length": 4,
                           "context": 16, "dim": 32, "batch": 8, "steps": 4000, "eval-every": 20})
        self.train()
        self.assertRegex(self.text("td.step"), "(?s)learned in [1-9].*learned in [1-9]")
        self.assertIn("Steps to learn", self.text("#cache-chart"))
        self.until_text(".look .judgement", "right|wrong")
        self.until_text("#verdicts", "^A verdict takes 5 seeds")

    def test_a_changed_text_has_no_results(self):
        self.open(PAIR, data="own", steps=2)
        self.type("#own", POEM * 40)
        self.train()
        self.type("#own", "!")
        self.wait(lambda: self.is_hidden("#watch, #ask"), "results of another text are gone")

    def test_seeds_that_diverge_are_told(self):
        self.open(PAIR, **{"data": "lookup", "lr": 100, "min-lr": 100, "warmup": 0, "grad-clip": 0})
        self.set("#seeds input", 1)
        self.train()
        self.until_text("#verdicts", "mha, the reference, has no finished run")
        for steps in self.texts("td.step"):
            self.assertIn("2\u00a0seeds diverged: the ", steps)
        self.assertTrue(self.is_hidden("#save"), "models that diverged can be saved")

    def test_an_empty_name_breaks_nothing(self):
        self.open(PAIR, data="lookup", steps=2)
        self.set(".card select", "written", "change")
        self.set(".card input[type=text]", "", "change")
        self.assertEqual(self.see("$('.card input[type=text]').value"), "mha")
        self.until_ready()
        self.assertEqual(self.texts("#broken"), [""])

    def test_a_report_leads_to_the_page_beside_it(self):
        shutil.copy(self.file, self.work)
        self.program("compare", "--data", "recall", "--attention", "gqa1,mla24+0", "--layers", 1,
                     "--dim", 32, "--steps", 2, "--seeds", 1, "--intervals", "off", "--quiet",
                     "--out", self.work)
        names = ("report.html", self.file.name)
        report, self.page = ((self.work / name).as_uri() for name in names)
        self.allowed = [report]
        self.go(report)
        self.click("a[href^='headcount.html']")
        self.until("$('#train')?.disabled === false && $$('.card .bytes strong').length === 2",
                   "the link leads on")
        self.assertEqual(self.texts(".card code"), ["gqa1", "mla24+0"])
        self.assertEqual(self.chosen_text(), "recall")
        self.assertEqual(self.texts("#link-note"), [""], "the page misses something")
        self.assertEqual(self.texts("#shared .slider output")[0], "2", "steps of the report")

    def test_a_dropped_config_is_counted_as_by_the_program(self):
        config = self.work / "config.json"
        config.write_text(json.dumps({
            "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
            "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}))
        self.open()
        self.drop(config)
        self.until_count("#model-figures svg", 2)
        self.assertEqual(self.text("#model-table"),
                         self.program("cost", "--config", config, "--context", 8192))
        self.set("#model-sliders input", 0, number=1)
        self.until_text("#model-table", "16,384 B a token")  # of one KV head, an eighth

    def test_errors_are_told_and_the_page_goes_on(self):
        self.open()
        self.click("input[value=own]")
        self.type("#own", "xyz")
        self.until_text("#error-of-all", "^Your text has 3 characters")
        self.assertTrue(self.is_hidden(".card .picture, .card .bytes"), "caches of another text")
        self.assertTrue(self.see("$('#train').disabled"), "three characters can be trained on")
        self.type("#own", POEM * 40)
        self.until_ready()
        self.click("input[value=lookup]")
        (self.work / "poem.txt").write_text(POEM * 8000)
        self.drop(self.work / "poem.txt")
        self.until_text("#own-size", "^poem.txt: 336,000")
        self.until_text("#estimate", "Takes about")
        (self.work / "broken.zip").write_text("no archive " * 10)
        self.drop(self.work / "broken.zip")
        self.until_text("#opened", "^Not opened: ")
        self.click("input[value=lookup]")
        self.until_texts("#error-of-all", [""])
        self.until_ready()

    def test_keys_are_enough(self):
        self.open(PAIR, **SMALL, steps=3000)
        self.tab_to(".card .slider input")
        before = self.texts(".card .bytes")[0]
        self.press(RIGHT)
        self.wait(lambda: self.texts(".card .bytes")[0] != before, "a slider changes the cache")
        self.until_ready()
        self.tab_to("#train")
        self.press(ENTER)
        self.until("document.activeElement.id === 'pause'", "the button that pauses has the focus")
        self.until_count(".look .new", 2)  # a question is answered while training goes on
        self.assertIn("after", self.texts(".look .judgement")[0], "an answer without its step")
        self.tab_to("#pause")
        self.press(ENTER)
        self.until_text("#status", "^Paused\\.$")
        self.press(ENTER)
        self.until_text("#status", "left")
        self.tab_to("#stop")
        self.press(ENTER)
        self.wait(lambda: self.is_hidden("#watch"), "training is given up")
        self.until("document.activeElement.id === 'train'", "the button that trains has the focus")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    Page.file, Page.headcount = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    Page.page = Page.file.as_uri()
    if not Page.file.exists():
        print(f"skipped: {Page.file} is not built; train/page/build.sh says what it needs")
    elif not is_installed():
        print("skipped: chromium or chromium-driver is not installed")
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]])


if __name__ == "__main__":
    main()
