"""Opens reports in headless Chromium and checks that they ask for nothing but themselves and leave
the console empty, that nothing sticks out of a phone's screen or a window, what a page begins with,
that marks and letters can be seen and read, what the passages show that the attentions of a
comparison read, and that a copy on paper cuts nothing.

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
PAPER = (702, 1030)  # A4 with margins of 12 mm, CSS pixels
LARGEST = 2_000_000  # bytes of a page

# Scripts of checks stand between these.
BEGIN = """
const [width, height] = arguments, faults = [],
  all = (what, e = document) => [...e.querySelectorAll(what)],
  style = e => getComputedStyle(e), box = e => e.getBoundingClientRect();
const expect = (holds, fault) => { if (!holds) faults.push(fault); };
"""
END = "return faults;"

# Elements that stick out of the page to the right and that no ancestor lets scroll.
STICKING_OUT = """
const scrolls = e => e && (/auto|scroll/.test(style(e).overflowX) || scrolls(e.parentElement));
for (const e of all('body *'))
  expect(box(e).right <= innerWidth + 0.5 || scrolls(e.parentElement),
    'sticks out: ' + e.tagName + ': ' + e.textContent.trim().slice(0, 40));
const wide = document.documentElement.scrollWidth;
expect(wide <= width, `is ${wide} units wide`);
"""

# What the page shows first, and how its pictures look to the eye.
PICTURES = """
expect(all('main h1').length && all('svg').length, 'has no heading or no picture: is it a report?');
const shown = all('.part > h1 + .columns > *'), verdict = all('.verdict').length && shown.shift();
if (verdict) expect(/^Verdict: \\S/.test(verdict.textContent), 'no verdict comes first');
expect(shown[0].querySelector('svg'), 'no picture comes first, below a verdict');
for (const mark of all('svg circle, svg .mark, svg .area')) {
  expect(mark.querySelector('title')?.textContent, 'a mark says nothing: ' + mark.outerHTML);
  const {left, right, top, bottom} = box(mark), picture = box(mark.closest('svg'));
  expect(left >= picture.left && right <= picture.right && top >= picture.top &&
    bottom <= picture.bottom, 'a mark lies outside its picture: ' + mark.outerHTML);
}
for (const text of all('svg text')) {
  const picture = text.closest('svg'), {left, right} = box(picture);
  expect(style(text).fill !== style(picture.querySelector('.paper')).fill,
    'a text cannot be seen: ' + text.textContent);
  expect(box(text).left >= left - 0.5 && box(text).right <= right + 0.5,
    'a text sticks out of its picture: ' + text.textContent);
}
"""

# The passages as the attentions read them: as many of each kind as the table has rows, in shades
# whose contrast with the paper grows, of letters that stand out, and numbers on pointing.
READINGS = """
const [{results}] = JSON.parse(document.getElementById('data').textContent);
const light = colour => {  // relative luminance (w3.org/TR/WCAG22)
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(n => n / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const paper = light(style(all('pre')[0]).backgroundColor);
for (const what of ['.readings figure', '.looks'])
  expect(all(what).length === results.variants.length,
    `${all(what).length} ${what} of ${results.variants.length} attentions`);
for (const look of all('.looks figure')) {
  expect(/entropy \\d/.test(look.textContent), 'a head without its entropy');
  expect(all('.q', look).length === 1, 'a head that is asked for nothing');
}
for (const key of all('.key')) {
  let last = 1;
  expect(all('i', key).length === 4, 'a key without four shades');
  for (const shade of all('i', key)) {
    const back = light(style(shade).backgroundColor), stands_out = contrast(back, paper);
    expect(stands_out >= 1.15 * last, 'two shades are alike: ' + key.textContent);
    last = stands_out;
    expect(contrast(light(style(shade).color), back) >= 4.5,
      'a letter can hardly be read on its shade: ' + shade.outerHTML);
  }
}
for (const shade of all('.text i'))
  expect(shade.title || shade.className === 'd', 'says nothing: ' + shade.outerHTML);
"""

# Texts of the pictures that cover each other, or a mark that is not theirs.
COVERED = """
const named = (e, name) => {
  const {left, right, top, bottom} = box(e);
  return {name, left: left + 2, right: right - 2, top: top + 2, bottom: bottom - 2};
};
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
for (const svg of all('svg')) {
  const texts = all('text', svg).filter(t => t.textContent).map(t => named(t, t.textContent)),
    marks = all('.mark', svg).map(mark => named(mark, 'a mark'));
  texts.forEach((text, i) => [...texts.slice(i + 1), ...marks].forEach(other =>
    expect(!meet(text, other), `'${text.name}' covers '${other.name}'`)));
}
"""

# What stands in the right half of a window, at its top.
BESIDE = """
const [first, ...more] = all('.part > h1 + .columns > *');
expect(more.some(e => box(e).left >= box(first).right),
  'nothing stands in the right half of the window');
"""

# On paper nothing scrolls: what would be cut off, and what could be split over pages.
ON_PAPER = """
const [table] = all('.scroll'), wide = table.scrollWidth;
expect(wide <= table.clientWidth && wide <= document.documentElement.clientWidth,
  `the table is cut: ${wide} units of ${table.clientWidth}`);
expect(style(table).overflowX === 'visible', 'the table scrolls');
for (const e of all('figure, .scroll')) {
  expect(style(e).breakInside === 'avoid', 'may be split: ' + e.outerHTML.slice(0, 80));
  expect(box(e).height <= height || e.closest('.readings, .looks'),
    'is higher than a page: ' + e.textContent.trim().slice(0, 40));
}
"""


def view(browser, page, size, scale, **media):
    browser.devtools("Emulation.setEmulatedMedia", **media)
    browser.devtools("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                     deviceScaleFactor=scale, mobile=True)
    browser.ask("POST", "/url", {"url": page})


def check(browser, what, size, *scripts):
    return [f"{what}: {fault}" for script in scripts
            for fault in browser.run(BEGIN + script + END, *size)]


def layout_faults(browser, page, scheme, width):
    size = (width, 740)
    view(browser, page, size, 2, media="",
         features=[{"name": "prefers-color-scheme", "value": scheme}])
    # All details open: what they hide must fit too.
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true;")
    scripts = [STICKING_OUT, PICTURES, COVERED]
    if browser.run("return document.querySelector('.verdict') !== null"):
        scripts.append(READINGS)
    if width >= WINDOW:
        scripts.append(BESIDE)
    return check(browser, f"{scheme}, {width} units wide", size, *scripts)


def faults(browser, page):
    view(browser, page, PAPER, 1, media="print")
    found = check(browser, "on paper", PAPER, ON_PAPER)
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
