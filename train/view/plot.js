// Charts as SVG text: lines with bands, points with intervals, forest plots. Pure functions without
// a DOM, so that a report, the page and a script under node draw alike. Colours are those of
// plot.css.
import { numberText, signedText } from "./format.js";

const kWidth = 520, kHeight = 400; // units, which are CSS pixels at full size
const kTop = 46, kBelow = 54; // margins above and below a plot
const kLetter = 7.8, kLine = 16; // width of a letter, height of a line
const kWideLetter = 1.7; // width of an m or w, in letters
const kLongestName = 18; // letters; longer names are cut
const kMark = 7; // half the size of a mark
const kColours = 14; // of plot.css
const kShapes = [
  "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0z", // circle
  "M-5-5H5V5H-5z", // square
  "M0-6.5L6.2 4.5H-6.2z", // triangle
  "M0-7L6 0L0 7L-6 0z", // diamond
  "M-2.2-6.5H2.2V-2.2H6.5V2.2H2.2V6.5H-2.2V2.2H-6.5V-2.2H-2.2z", // plus
  "M0 6.5L6.2-4.5H-6.2z", // triangle on its tip
];

// Text inside an element or a quoted attribute; what XML refuses or advises against becomes U+FFFD.
export const escaped = (text) => String(text)
  .replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]/g, "\ufffd")
  .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
export const shortName = (name) =>
  [...name].length > kLongestName ? `${[...name].slice(0, kLongestName - 1).join("")}…` : name;
const widthOf = (text) => [...text].reduce((sum, letter) =>
  sum + (/[mw]/i.test(letter) ? kWideLetter : 1), 0) * kLetter;
const widest = (texts) => Math.max(0, ...texts.map(widthOf));

// Template of SVG text, with its numbers rounded to tenths.
export const xml = (parts, ...values) => String.raw({ raw: parts }, ...values.map((value) =>
  typeof value === "number" ? Math.round(value * 10) / 10 : value));
export const path = (name, d) => `<path class="${name}" d="${d}"/>\n`;
export const textAt = (x, y, shown, anchor = "start", name = "ink") =>
  xml`<text class="${name}" x="${x}" y="${y}" text-anchor="${anchor}">${escaped(shown)}</text>\n`;
export const colourOf = (style) => `c${style % kColours}`;
export const titled = (hover) => `<title>${escaped(hover)}</title>`;
export const mark = (style, x, y, hover) =>
  xml`<path class="mark ${colourOf(style)}" transform="translate(${x} ${y})" ` +
  `d="${kShapes[style % kShapes.length]}">${titled(hover)}</path>\n`;
const course = (points) => points.map(([x, y], i) => xml`${i ? "L" : "M"}${x} ${y}`).join("");

// A picture with its title; `label` is for screen readers.
export const picture = ({ title, caption = "", width = kWidth, height, label = title }, body) =>
  xml`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" ` +
  `class="plot" aria-label="${escaped(label)}">\n${titled(title)}` +
  `<desc>${escaped(caption)}</desc>\n` +
  xml`<rect class="paper" width="${width}" height="${height}" rx="6"/>\n` +
  `${textAt(14, 27, title, "start", "ink head")}${body}</svg>\n`;

// Axis over the finite ones of `values`: {place: value -> 0 to 1, ticks: [{value, label}]}. `log`
// is 2, 10 or 0 for a linear axis; `most` bounds its room; `range` is all of it; it covers at least
// `span`, begins at `from` and has at most about so many `ticks`.
export function axisOf(values, { log = 0, most = Infinity, range, label = numberText, from,
  span: leastSpan, ticks: count = 7 } = {}) {
  const scale = (value) => log ? Math.log(value) / Math.log(log) : value;
  const shown = values.map(scale).filter(Number.isFinite);
  let low = shown.length ? Math.min(...shown) : 0, high = shown.length ? Math.max(...shown) : 1;
  const span = leastSpan ?? (log ? (log === 2 ? 2 : 0.1) : Math.max(1e-9, 1e-3 * Math.abs(high)));
  if (high - low < span) [low, high] = [(low + high - span) / 2, (low + high + span) / 2];
  const room = 0.08 * (high - low);
  [low, high] = range ?? [from === undefined ? Math.max(low - room, -1e300) : scale(from),
    Math.min(high + room, most)];
  const ticks = [];
  const add = (value, decimals) => {
    const place = scale(value);
    if (place >= low - 1e-9 && place <= high + 1e-9)
      ticks.push({ value, label: label(value, decimals) });
  };
  if (log && (log === 2 || high - low >= 1)) {
    const every = Math.ceil((high - low) / count);
    const factors = log === 10 && high - low < 2.5 ? [1, 2, 5] : [1];
    for (let power = Math.floor(low); power <= high; power += every)
      for (const factor of factors) add(factor * log ** power, Math.max(0, -power));
  } else {
    const [first, to] = log ? [log ** low, log ** high] : [low, high];
    const power = 10 ** Math.floor(Math.log10((to - first) / count));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => (to - first) / each <= count);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let k = Math.ceil(first / step - 1e-9); k * step <= to + 1e-9 * step; ++k)
      add(k * step, decimals);
  }
  return { place: (value) => Math.min(1, Math.max(0, (scale(value) - low) / (high - low))), ticks };
}

// Moves labels [{y}] apart, at least a line from each other, within [top, bottom].
export function movedApart(labels, top, bottom) {
  labels.sort((a, b) => a.y - b.y);
  let least = top;
  for (const label of labels) least = (label.y = Math.max(label.y, least)) + kLine;
  let most = bottom;
  for (const label of [...labels].reverse()) most = (label.y = Math.min(label.y, most)) - kLine;
  return labels;
}

// Frame of a plot: grid, axes and their titles. Returns {atX, atY, out, taken, ...}: places of
// values, the picture so far, and boxes that no label may cover.
function frame({ xs, ys, xTitle, yTitle, left, right, bottom }) {
  const plot = { left, right, bottom, out: "", taken: [] };
  plot.atX = (value) => left + (right - left) * xs.place(value);
  plot.atY = (value) => bottom - (bottom - kTop) * ys.place(value);
  let free = -Infinity; // of numbers below the axis, which may be long
  for (const { value, label } of xs.ticks) {
    const x = plot.atX(value), half = widthOf(label) / 2;
    plot.out += path("grid", xml`M${x} ${kTop}V${bottom}`);
    if (x - half < free + 6) continue;
    plot.out += textAt(x, bottom + 19, label, "middle");
    free = x + half;
  }
  for (const { value, label } of ys.ticks)
    plot.out += path("grid", xml`M${left} ${plot.atY(value)}H${right}`) +
      textAt(left - 8, plot.atY(value) + 4.5, label, "end");
  plot.out += path("axis", xml`M${left} ${kTop}V${bottom}H${right}`) +
    textAt((left + right) / 2, bottom + 42, xTitle, "middle");
  if (yTitle)
    plot.out += xml`<text class="ink" text-anchor="middle" transform="translate(18 ${
      (kTop + bottom) / 2}) rotate(-90)">${escaped(yTitle)}</text>\n`;
  return plot;
}

const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const boxAround = (x, y, half = kMark) =>
  ({ left: x - half, right: x + half, top: y - half, bottom: y + half });

// Draws a text at the first of the places [x, y, anchor] where nothing else is, between `left` and
// `end`; returns false if there is none.
function drawWhereFree(plot, text, places, name, end = plot.right) {
  const width = widthOf(text);
  const found = places.find(([x, y, anchor]) => {
    const left = anchor === "start" ? x : anchor === "end" ? x - width : x - width / 2;
    const box = { left, right: left + width, top: y - 11, bottom: y + 3.5 };
    const isFree = box.left >= plot.left && box.right <= end && box.top >= kTop - 8 &&
      box.bottom <= plot.bottom && !plot.taken.some((other) => meet(box, other));
    if (isFree) plot.taken.push(box);
    return isFree;
  });
  if (found) plot.out += textAt(found[0], found[1], text, found[2], name);
  return found !== undefined;
}

// Level lines across a plot [{y, name}], such as baselines, each with its name where it finds a
// place.
function drawLevels(plot, levels) {
  const { left, right } = plot, downs = levels.map(({ y }) => plot.atY(y));
  for (const y of downs) plot.taken.push({ left, right, top: y - 1, bottom: y + 1 });
  levels.forEach(({ name }, i) => {
    plot.out += path("level", xml`M${left} ${downs[i]}H${right}`);
    const places = [downs[i] - 5, downs[i] + 14].flatMap((y) => [[left + 8, y, "start"],
      [right - 8, y, "end"], ...Array.from({ length: 9 }, (_, k) =>
        [left + (right - left) * (k + 1) / 10, y, "middle"])]);
    drawWhereFree(plot, name, places, "quiet base");
  });
}

const hasInterval = (p) => Number.isFinite(p.low) && Number.isFinite(p.high);
const isDrawn = (p) => Number.isFinite(p.x) && Number.isFinite(p.y);

// Draws the interval of a point, if it has one; returns the box of both.
function drawInterval(plot, style, p) {
  const x = plot.atX(p.x), box = boxAround(x, plot.atY(p.y));
  if (!hasInterval(p)) return box;
  const [low, high] = [plot.atY(p.low), plot.atY(p.high)];
  plot.out += path(`bar ${colourOf(style)}`, xml`M${x - 4} ${high}h8m-4 0V${low}m-4 0h8`);
  return { ...box, top: Math.min(high, box.top), bottom: Math.max(low, box.bottom) };
}

// Draws one line with its band and marks; faint lines have neither.
function drawLine(plot, { style, faint, apart, points }, marks) {
  const colour = colourOf(style), banded = points.filter(hasInterval);
  const along = (some, key) => some.map((p) => [plot.atX(p.x), plot.atY(p[key])]);
  if (apart) {
    for (const p of points) {
      plot.taken.push(drawInterval(plot, style, p));
      plot.out += mark(style, plot.atX(p.x), plot.atY(p.y), p.hover ?? "");
    }
    return;
  }
  if (banded.length > 1 && !faint)
    plot.out += path(`band ${colour}`,
      `${course([...along(banded, "high"), ...along(banded, "low").reverse()])}z`);
  const places = along(points, "y");
  places.slice(1).forEach(([x, y], i) => {
    const [fromX, fromY] = places[i], steps = Math.ceil(Math.hypot(x - fromX, y - fromY) / 8);
    for (let k = 0, part = 0; k <= steps; part = ++k / steps)
      plot.taken.push(boxAround(fromX + (x - fromX) * part, fromY + (y - fromY) * part, 2));
  });
  if (points.length > 1) plot.out += path(`line ${colour}${faint ? " faint" : ""}`, course(places));
  if (faint) return;
  const last = points.length - 1, before = Math.min(last, last < 12 ? 12 : 7, marks - 1);
  for (let i = before; i >= 0; --i) {
    const at = last - Math.round(i * last / Math.max(1, before));
    plot.out += mark(style, ...places[at], points[at].hover ?? "");
    plot.taken.push(boxAround(...places[at]));
  }
}

// Names of lines at the right, in the order of their ends, each with the mark of its line. Nothing
// leads from an end to its name: a line is as long as its run.
function drawNamesAtRight({ atY, right, bottom }, series) {
  const labels = series.map(({ name, style, points }) => ({ name, style,
    y: atY(points.at(-1).y) }));
  return movedApart(labels, kTop, bottom).map(({ name, style, y }) =>
    mark(style, right + 21, y, name) + textAt(right + 31, y + 4.5, shortName(name))).join("");
}

// Points with their intervals; returns where each series begins.
function drawPoints(plot, series) {
  return series.map(({ style, name, points, dots = [] }) => points.map((p) => {
    const x = plot.atX(p.x), y = plot.atY(p.y), box = drawInterval(plot, style, p);
    plot.taken.push(box);
    for (const value of dots) plot.out +=
      xml`<circle class="dot ${colourOf(style)}" cx="${x}" cy="${plot.atY(value)}" r="3"/>\n`;
    plot.out += mark(style, x, y, p.hover ?? "");
    return { name, style, x, y, box };
  })[0]);
}

// Names beside their marks, also beside the plot; returns the spots whose names found no place.
const nameSpots = (plot, spots, width) => spots.filter(({ name, x, y, box }) => {
  const beside = (down) => [[x + 11, y + down, "start"], [x - 11, y + down, "end"]];
  const places = [...beside(4.5), [x, box.top - 5, "middle"], [x, box.bottom + 13, "middle"],
    ...[-11, 20, -24].flatMap(beside)];
  return !drawWhereFree(plot, shortName(name), places, "ink label", width - 4);
});

// Legend of `entries` [{name, style}] in columns from `top` on: {out, height}.
export function legend(entries, top, width, symbol = ({ style, name }, x, y) => mark(style, x, y,
  name)) {
  const wide = 36 + widest(entries.map(({ name }) => shortName(name)));
  const rows = Math.ceil(entries.length / Math.max(1, Math.floor((width - 14) / wide)));
  const out = entries.map((entry, i) => {
    const x = 14 + wide * Math.floor(i / rows), y = top + 20 * (i % rows);
    return symbol(entry, x + 8, y) + textAt(x + 20, y + 4.5, shortName(entry.name));
  }).join("");
  return { out, height: 20 * rows };
}

// Levels that a chart of `values` covers: those beyond its room would flatten it.
function shownLevels(levels, values, { from = Infinity, span = 1e-9 }) {
  const low = Math.min(...values, from), high = Math.max(...values);
  const room = Math.max(high - low, span);
  return levels.filter(({ y }) => y >= low - room && y <= high + room);
}

// Chart {title, caption, xTitle, yTitle, x, y, series, levels, front, kind, width, height}. A
// series is {name, style, faint, apart, points: [{x, y, low, high, hover}], dots}; `kind` is "lines"
// or "points"; no line joins points that stand `apart`; `x` and `y` are options of axisOf; `levels`
// [{y, name}] are lines across; `front` [[x, y]] is a staircase; a line has at most `marks`, one of
// them at its end.
export function chart({ kind = "points", series: given, levels: givenLevels = [], front = [],
  x = {}, y = {}, width = kWidth, height = kHeight, marks = Infinity, ...about }) {
  const lines = kind === "lines";
  const series = given.map((each) => ({ ...each, points: each.points.filter(isDrawn) }))
    .filter(({ points }) => points.length > 0);
  const points = series.flatMap((each) => each.points);
  const named = series.filter(({ faint }) => !faint);
  const xs = axisOf(points.map((p) => p.x), { ...x, ticks: width < 420 ? 4 : 7 });
  const values = points.flatMap((p) => lines || !hasInterval(p) ? [p.y] : [p.y, p.low, p.high]);
  const levels = shownLevels(givenLevels, values, y);
  const ys = axisOf([...values, ...series.flatMap(({ dots = [] }) => dots),
    ...levels.map((level) => level.y)], y);
  const bottom = Math.max(height - kBelow, lines ? kTop + kLine * named.length : 0);
  const left = (about.yTitle ? 38 : 20) + widest(ys.ticks.map((tick) => tick.label));
  const right = width - (lines ? 48 + widest(named.map(({ name }) => shortName(name))) : 22);
  const plot = frame({ xs, ys, left, right, bottom, ...about });
  if (front.length)
    plot.out += path("front", xml`M${plot.atX(front[0][0])} ${kTop}` + front.map(([a, b]) =>
      xml`H${plot.atX(a)}V${plot.atY(b)}`).join("") + xml`H${right}`);
  let unnamed = [];
  if (lines) {
    for (const each of series) drawLine(plot, each, marks);
    plot.out += drawNamesAtRight(plot, named);
    drawLevels(plot, levels);
  } else {
    const spots = drawPoints(plot, series);
    drawLevels(plot, levels);
    unnamed = nameSpots(plot, spots, width);
  }
  const names = legend(unnamed.sort((a, b) => a.style - b.style), bottom + kBelow + 6, width);
  return picture({ ...about, width, height: bottom + kBelow + names.height }, plot.out + names.out);
}

// Forest plot {title, caption, xTitle, tolerance, edges, rows, most, width}: rows are {name, word,
// style, mean, low, high, hover, dots: [{value, hover}]}. Rows whose dots are left out are half as
// high and may have a second, wider interval, `outer` [low, high]. Means above `most` are numbers
// at the edge of the picture; intervals that reach beyond it end in an arrow. `edges` are the words
// on either side of the tolerance.
export function forest({ title, caption, xTitle, tolerance, rows, most = Infinity,
  edges, width = kWidth }) {
  const dense = rows.every((row) => !row.dots), kRow = dense ? 19 : 36;
  const top = 68, bottom = top + kRow * rows.length, right = width - 22;
  const values = [0, tolerance, ...rows.flatMap(({ mean, dots = [] }) =>
    [mean, ...dots.map((dot) => dot.value)])].filter((v) => Number.isFinite(v) && v <= most);
  const low = Math.min(...values), high = Math.max(...values);
  const within = (value) => Math.min(2 * high - low, Math.max(2 * low - high, value));
  const ends = rows.filter((row) => !(row.mean > most))
    .flatMap((row) => row.outer ?? [row.low, row.high]);
  const axis = axisOf([...values, ...ends.filter(Number.isFinite).map(within)]);
  const names = widest(rows.map((row) => shortName(row.name)));
  const words = widest(rows.map((row) => row.word));
  const left = 28 + (dense ? names + 8 + words : Math.max(names, words));
  const atX = (value) => left + (right - left) * axis.place(value);
  let out = "";
  if (Number.isFinite(tolerance)) {
    const edge = atX(tolerance);
    out += xml`<rect class="within" x="${left}" y="${top}" width="${edge - left}" height="${
      bottom - top}"/>\n` + path("front", xml`M${edge} ${top - 6}V${bottom}`);
    if (edge - left > widthOf(edges[0])) out += textAt(edge - 6, top - 8, edges[0], "end", "quiet");
    if (right - edge > widthOf(edges[1]))
      out += textAt(edge + 6, top - 8, edges[1], "start", "quiet");
  }
  for (const { value, label } of axis.ticks)
    out += path("grid", xml`M${atX(value)} ${top}V${bottom}`) +
      textAt(atX(value), bottom + 19, label, "middle");
  out += path("level", xml`M${atX(0)} ${top}V${bottom}`) +
    path("axis", xml`M${left} ${bottom}H${right}`) +
    textAt((left + right) / 2, bottom + 42, xTitle, "middle") +
    rows.map((row, i) => forestRow(row, top + kRow * i + 11, { atX, axis, left, right, most }))
      .join("");
  return picture({ title, caption, width, height: bottom + kBelow }, out);
}

function forestRow({ name, word, style, mean, low, high, hover, dots, outer }, y,
  { atX, axis, left, right, most }) {
  const colour = colourOf(style);
  let out = textAt(14, y + 4.5, shortName(name), "start", "ink label") +
    (dots ? textAt(14, y + 18, word, "start", "quiet")
      : textAt(left - 8, y + 4.5, word, "end", "quiet"));
  if (mean > most) return out + textAt(right, y + 4.5, `${signedText(mean, 3)} →`, "end", "quiet");
  if (outer) out += path(`bar ${colour}`, xml`M${atX(outer[0])} ${y}H${atX(outer[1])}`);
  for (const { value, hover: shown } of dots ?? [])
    if (Number.isFinite(value)) out += xml`<circle class="dot ${colour}" cx="${atX(value)}" cy="${
      y + 14}" r="3.5">${titled(shown)}</circle>\n`;
  if (!Number.isFinite(mean)) return out;
  if (Number.isFinite(low) && Number.isFinite(high)) {
    const end = (value, outwards) => {
      const beyond = axis.place(value) === (outwards < 0 ? 0 : 1);
      const x = atX(value), back = beyond ? x - 4 * outwards : x;
      return xml`M${back} ${y - 4}L${x} ${y}L${back} ${y + 4}`;
    };
    out += path(`line ${colour}`, xml`M${atX(low)} ${y}H${atX(high)}` + end(low, -1) +
      end(high, 1));
  }
  return out + mark(style, atX(mean), y, hover);
}
