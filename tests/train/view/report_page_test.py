"""Opens reports in headless Chromium and checks that they ask for nothing but themselves, that the
console stays empty, that nothing but what scrolls by itself sticks out of a phone's screen or a
window, that the page begins with a picture, that of a
comparison below its verdict, whose marks say their numbers, with more beside it in a window, that no
text of a picture covers another one or a mark, that the passages which the attentions of a comparison
read are there, shaded in steps that anyone can tell apart, with letters that can be read, and that a
copy on paper cuts nothing.

Usage: python3 report_page_test.py report.html...
Ends with 1 if a check fails, and with 0 after a line "skipped: ..." where Chromium or its
chromedriver is not installed.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from browser import Browser, is_installed, requests

WIDTHS = (360, 375, 1100, 1600)
WINDOW = 1100  # from here on two columns stand side by side
LARGEST = 2_000_000  # bytes of a page

# Elements that stick out of the page to the right and that no ancestor lets scroll.
STICKING_OUT = """
const scrolls = e => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) ||
                           scrolls(e.parentElement));
return [...document.body.querySelectorAll('*')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(e.parentElement))
  .map(e => e.tagName + ': ' + e.textContent.trim().slice(0, 40));
"""

# What the page shows first, and how its pictures look to the eye.
BEGINNING = """
const shown = [...document.querySelectorAll('.part > h1 + .columns > *')], faults = [];
const verdict = document.querySelector('.verdict') ? shown.shift() : null;
if (verdict && !/^Verdict: \\S/.test(verdict.textContent)) faults.push('no verdict comes first');
if (!shown[0].querySelector('svg')) faults.push('no picture comes first, below a verdict');
for (const mark of document.querySelectorAll('svg circle, svg .mark, svg .area')) {
  const title = mark.querySelector('title');
  if (!title || !title.textContent) faults.push('a mark says nothing: ' + mark.outerHTML);
  const box = mark.getBoundingClientRect(), all = mark.closest('svg').getBoundingClientRect();
  if (box.left < all.left || box.right > all.right || box.top < all.top || box.bottom > all.bottom)
    faults.push('a mark lies outside its picture: ' + mark.outerHTML);
}
for (const text of document.querySelectorAll('svg text')) {
  const paper = text.closest('svg').querySelector('.paper');
  if (getComputedStyle(text).fill === getComputedStyle(paper).fill)
    faults.push('a text cannot be seen: ' + text.textContent);
  const box = text.getBoundingClientRect(), all = text.closest('svg').getBoundingClientRect();
  if (box.left < all.left - 0.5 || box.right > all.right + 0.5)
    faults.push('a text sticks out of its picture: ' + text.textContent);
}
return faults;
"""

# The passages as the attentions read them: as many of each kind as the table has rows, in shades
# whose contrast with the paper grows, of letters that stand out, and numbers on pointing.
READINGS = """
const faults = [], rows = JSON.parse(document.getElementById('data').textContent)[0].results.variants.length;
const light = text => {  // relative luminance (w3.org/TR/WCAG22)
  const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(n => n / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const paper = light(getComputedStyle(document.querySelector('pre')).backgroundColor);
for (const [what, found] of [['passages', document.querySelectorAll('.readings figure')],
                             ['details of heads', document.querySelectorAll('.looks')]])
  if (found.length !== rows) faults.push(`${found.length} ${what} of ${rows} attentions`);
for (const look of document.querySelectorAll('.looks figure')) {
  if (!/entropy \\d/.test(look.textContent)) faults.push('a head without its entropy');
  if (look.querySelectorAll('.q').length !== 1) faults.push('a head that is asked for nothing');
}
for (const key of document.querySelectorAll('.key')) {
  let last = 1;
  const shades = [...key.querySelectorAll('i')];
  if (shades.length !== 4) faults.push('a key without four shades');
  for (const shade of shades) {
    const style = getComputedStyle(shade), back = light(style.backgroundColor);
    if (contrast(back, paper) < 1.15 * last) faults.push('two shades are alike: ' + key.textContent);
    last = contrast(back, paper);
    if (contrast(light(style.color), back) < 4.5)
      faults.push('a letter can hardly be read on its shade: ' + shade.outerHTML);
  }
}
for (const shade of document.querySelectorAll('.text i'))
  if (!shade.title && shade.className !== 'd') faults.push('says nothing: ' + shade.outerHTML);
return faults;
"""

# Texts of the pictures that cover each other, or a mark that is not theirs.
COVERED = """
const faults = [], inner = (e, by) => {
  const b = e.getBoundingClientRect();
  return {left: b.left + by, right: b.right - by, top: b.top + by, bottom: b.bottom - by};
};
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
for (const svg of document.querySelectorAll('svg')) {
  const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent)
    .map(t => [t.textContent, inner(t, 2)]);
  const marks = [...svg.querySelectorAll('.mark')].map(m => ['a mark', inner(m, 2)]);
  texts.forEach(([text, box], i) => {
    for (const [other, covered] of [...texts.slice(i + 1), ...marks])
      if (meet(box, covered)) faults.push(`'${text}' covers '${other}'`);
  });
}
return faults;
"""

# What stands in the right half of a window, at its top.
BESIDE = """
const [first, ...more] = document.querySelectorAll('.part > h1 + .columns > *');
return more.some(e => e.getBoundingClientRect().left >= first.getBoundingClientRect().right)
  ? [] : ['nothing stands in the right half of the window'];
"""

# On paper nothing scrolls: what would be cut off, and what could be split over pages.
PAPER = """
const faults = [], table = document.querySelector('.scroll');
if (table.scrollWidth > table.clientWidth || table.scrollWidth > document.documentElement.clientWidth)
  faults.push(`the table is cut: ${table.scrollWidth} units of ${table.clientWidth}`);
if (getComputedStyle(table).overflowX !== 'visible') faults.push('the table scrolls');
for (const e of document.querySelectorAll('figure, .scroll')) {
  if (getComputedStyle(e).breakInside !== 'avoid') faults.push('may be split: ' + e.outerHTML.slice(0, 80));
  if (e.getBoundingClientRect().height > arguments[0] && !e.closest('.readings, .looks'))
    faults.push('is higher than a page: ' + e.textContent.trim().slice(0, 40));
}
return faults;
"""
PAGE = (702, 1030)  # of A4 with margins of 12 mm, CSS pixels


def layout_faults(browser, page, scheme, width):
    browser.devtools("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=740,
                     deviceScaleFactor=2, mobile=True)
    browser.ask("POST", "/url", {"url": page})
    if not browser.run("return document.querySelector('main h1') !== null && document.querySelector('svg') !== null"):
        yield "the page has no heading or no picture: is it a report?"
    # All details open: what they hide must fit too.
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true;")
    wide = browser.run("return document.documentElement.scrollWidth")
    if wide > width:
        yield f"{scheme}: {wide} units wide, {width} is the screen"
    found = browser.run(BEGINNING) + browser.run(COVERED)
    if browser.run("return document.querySelector('.verdict') !== null"):
        found += browser.run(READINGS)
    if width >= WINDOW:
        found += browser.run(BESIDE)
    for fault in found:
        yield f"{scheme}, {width} units wide: {fault}"
    for element in browser.run(STICKING_OUT):
        yield f"{scheme}, {width} units wide: sticks out: {element}"


def paper_faults(browser, page):
    width, height = PAGE
    browser.devtools("Emulation.setEmulatedMedia", media="print")
    browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=True)
    browser.ask("POST", "/url", {"url": page})
    for fault in browser.run(PAPER, height):
        yield f"on paper: {fault}"
    browser.devtools("Emulation.setEmulatedMedia", media="")


def faults(browser, page):
    found = list(paper_faults(browser, page))
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            found += layout_faults(browser, page, scheme, width)
    asked = list(requests(browser.log("performance")))
    if page not in asked:
        found.append(f"the log of requests lacks the page itself: {asked}")
    found += [f"asks for {url}" for url in asked if url != page]
    found += [f"console: {entry['message']}" for entry in browser.log("browser")]
    return [f"{page}: {fault}" for fault in found]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    pages = [pathlib.Path(name).resolve(strict=True) for name in sys.argv[1:]]
    if not is_installed():
        print("skipped: chromium or chromium-driver is not installed")
        return
    with Browser() as browser:
        found = [fault for page in pages for fault in faults(browser, page.as_uri())]
    found += [f"{page}: {page.stat().st_size} bytes, {LARGEST} are enough" for page in pages
              if page.stat().st_size > LARGEST]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
