"""Opens reports in headless Chromium and checks that they ask for nothing but themselves and leave
the console empty, that nothing sticks out of a phone's screen or a window, what a page begins with,
that marks and letters can be seen and read, that each attention of a comparison reads the passage,
and that a copy on paper cuts nothing.

Usage: python3 report_page_test.py report.html...
Ends with 1 if a check fails, and with 0 after a line "skipped: ..." where Chromium or its
chromedriver is not installed.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from browser import LAYOUT, Browser, is_installed

WIDTHS = (360, 1100, 1600)
PAPER = (702, 1030)  # A4 with margins of 12 mm, CSS pixels
LARGEST = 2_000_000  # bytes of a page

BEGIN = """
const [width, height] = arguments, faults = [],
  all = (what, e = document) => [...e.querySelectorAll(what)],
  style = e => getComputedStyle(e), box = e => e.getBoundingClientRect();
const expect = (holds, fault) => { if (!holds) faults.push(fault); };
"""

# What the page shows first and, in a window, beside it; and how its pictures look to the eye.
ON_SCREEN = BEGIN + """
expect(all('main h1').length && all('svg').length, 'has no heading or no picture: is it a report?');
const shown = all('.part > .beside > *'), [first] = shown;
if (width >= 1100)
  expect(shown.some(e => box(e).left >= box(first).right), 'nothing stands in the right half');
if (all('.verdict').length) {
  expect(/^Verdict, against .+: \\S/.test(shown.shift().textContent), 'no verdict comes first');
  const [{results}] = JSON.parse(document.getElementById('data').textContent);
  if (shown[0].matches('.asked')) {
    const asks = results.passage.answers.includes(results.passage.question);
    expect(shown.shift().querySelector(asks ? '.example b' : '.example'),
      'nothing shows what was asked');
  }
  for (const what of ['.readings figure', '.looks'])
    expect(all(what).length === results.variants.length, `not each attention has ${what}`);
  for (const shade of all('.text i'))
    expect(shade.title || shade.className === 'd', 'says nothing: ' + shade.outerHTML);
}
expect(shown[0].querySelector('svg'), 'no picture comes first, below a verdict');
const named = (e, name) => {
  const {left, right, top, bottom} = box(e);
  return {name, left: left + 2, right: right - 2, top: top + 2, bottom: bottom - 2};
};
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
for (const svg of all('svg.plot')) {
  const picture = box(svg), texts = all('text', svg).filter(text => text.textContent);
  for (const mark of all('circle, .mark, .area', svg)) {
    expect(mark.querySelector('title')?.textContent, 'a mark says nothing: ' + mark.outerHTML);
    const {left, right, top, bottom} = box(mark);
    expect(left >= picture.left && right <= picture.right && top >= picture.top &&
      bottom <= picture.bottom, 'a mark lies outside its picture: ' + mark.outerHTML);
  }
  for (const text of texts) {
    expect(style(text).fill !== style(svg.querySelector('.paper')).fill,
      'a text cannot be seen: ' + text.textContent);
    expect(box(text).left >= picture.left - 0.5 && box(text).right <= picture.right + 0.5,
      'a text sticks out of its picture: ' + text.textContent);
  }
  const labels = texts.map(text => named(text, text.textContent)),
    marks = all('.mark', svg).map(mark => named(mark, 'a mark'));
  labels.forEach((label, i) => [...labels.slice(i + 1), ...marks].forEach(other =>
    expect(!meet(label, other), `'${label.name}' covers '${other.name}'`)));
}
return faults;
"""

# On paper nothing scrolls: what would be cut off, and what could be split over pages.
ON_PAPER = BEGIN + """
const [table] = all('.scroll'), wide = table.scrollWidth;
expect(wide <= table.clientWidth && wide <= document.documentElement.clientWidth,
  `the table is cut: ${wide} units of ${table.clientWidth}`);
expect(style(table).overflowX === 'visible', 'the table scrolls');
for (const e of all('figure, .scroll')) {
  expect(style(e).breakInside === 'avoid', 'may be split: ' + e.outerHTML.slice(0, 80));
  expect(box(e).height <= height || e.closest('.readings, .looks'),
    'is higher than a page: ' + e.textContent.trim().slice(0, 40));
}
return faults;
"""


def faults_on(browser, page, size, scripts, scheme, kind=""):
    browser.media(scheme, kind)
    browser.screen(*size)
    browser.ask("POST", "/url", {"url": page})
    if not kind:  # All details open: what they hide must fit too.
        browser.run("for (const e of document.querySelectorAll('details')) e.open = true;")
    return [f"{kind or scheme}, {size[0]} units wide: {fault}" for script in scripts
            for fault in browser.run(script, *size)]


def faults(browser, file):
    page = file.as_uri()
    found = faults_on(browser, page, PAPER, [ON_PAPER], "light", "print")
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            found += faults_on(browser, page, (width, 740), [LAYOUT, ON_SCREEN], scheme)
    if file.stat().st_size > LARGEST:
        found.append(f"{file.stat().st_size} bytes, {LARGEST} are enough")
    return [f"{file}: {fault}" for fault in found + browser.faults(page)]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    if not is_installed():
        print("skipped: chromium or chromium-driver is not installed")
        return
    with Browser() as browser:
        found = [fault for name in sys.argv[1:]
                 for fault in faults(browser, pathlib.Path(name).resolve(strict=True))]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
