// Charts as SVG: lines over steps, and points over bytes of cache.
import { markAt } from "./controls.js";
import { s } from "./dom.js";
import { bytesText, numberText } from "./format.js";

const kTop = 34, kBelow = 40, kLetter = 7.2, kLine = 16;
const kTickEvery = 45; // height between two numbers of an axis, at least

// Round numbers that cover [low, high].
function ticksOf(low, high, count = 5) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    ticks.push(i * step);
  return { ticks, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

const kLeastSpan = 0.1; // of the greatest value: less would make too much of small differences

// Range that holds all values with some room.
function rangeOf(values) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const low = Math.min(...finite), high = Math.max(...finite);
  const missing = Math.max(0, kLeastSpan * Math.abs(high) - (high - low)) / 2;
  const room = (high - low) * 0.06 + missing || 0.5;
  return [low - room, high + room];
}

// Moves labels [{y}] apart, at least a line from each other, within [top, bottom].
function moveApart(labels, top, bottom) {
  labels.sort((a, b) => a.y - b.y);
  for (let i = 1; i < labels.length; ++i)
    labels[i].y = Math.max(labels[i].y, labels[i - 1].y + kLine);
  let most = bottom;
  for (const label of [...labels].reverse()) {
    label.y = Math.min(label.y, most);
    most = label.y - kLine;
  }
  let least = top;
  for (const label of labels) {
    label.y = Math.max(label.y, least);
    least = label.y + kLine;
  }
  return labels;
}

// Frame of a chart: title, grid, axes. Returns the picture and the places of values.
function frame({ width, height, title, label, xTitle, x, y, right, xTicks, xText, percent }) {
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": label });
  const { ticks, decimals } = ticksOf(...y, height / kTickEvery);
  const yText = (value) => percent ? `${numberText(value, decimals)}\u00a0%`
    : numberText(value, decimals);
  const left = 12 + kLetter * Math.max(...ticks.map((tick) => yText(tick).length));
  const end = width - right, bottom = height - kBelow;
  const place = (value, [low, high], from, to) => from + (to - from) * (value - low) / (high - low);
  const atX = (value) => place(value, x, left, end), atY = (value) => place(value, y, bottom, kTop);
  svg.append(s("text", { class: "title", x: 0, y: 14 }, title));
  for (const tick of ticks) {
    const at = atY(tick);
    svg.append(s("path", { class: "grid", d: `M${left} ${at}H${end}` }),
      s("text", { class: "quiet", x: left - 6, y: at + 4, "text-anchor": "end" }, yText(tick)));
  }
  for (const tick of xTicks) {
    svg.append(s("text", { class: "quiet", x: atX(tick), y: bottom + 17, "text-anchor": "middle" },
      xText(tick)));
    svg.append(s("path", { class: "grid", d: `M${atX(tick)} ${kTop}V${bottom}` }));
  }
  svg.append(s("path", { class: "axis", d: `M${left} ${kTop}V${bottom}H${end}` }),
    s("text", { class: "quiet", x: (left + end) / 2, y: height - 6, "text-anchor": "middle" },
      xTitle));
  return { svg, atX, atY, left, end, bottom };
}

// Dashed lines of baselines that look nothing up: guesser, copier, commonest value.
function drawBaselines({ svg, atY, left, end }, lines) {
  let above = -Infinity; // the line before
  for (const { name, y } of [...lines].sort((a, b) => b.y - a.y)) {
    const at = atY(y), crowded = at - above < kLine + 2;
    svg.append(s("path", { class: "baseline", d: `M${left} ${at}H${end}` }),
      s("text", { class: "quiet base", x: left + 6, y: crowded ? at + 13 : at - 4 }, name));
    above = at;
  }
}

const pathOf = (points, atX, atY) =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${atX(x).toFixed(1)} ${atY(y).toFixed(1)}`).join("");

// Chart of lines: series [{name, style, points: [[x, y]], faint}] over steps from 0 to `most`,
// lines [{name, y}] across it. `percent`: y from 0 to 100.
export function lineChart({ width, height, title, label, most, series, lines = [], percent }) {
  const values = series.flatMap(({ points }) => points.map((point) => point[1]));
  const y = percent ? [0, 103] : rangeOf([...values, ...lines.map((line) => line.y)]);
  const named = series.filter(({ faint, points }) => !faint && points.length);
  const right = 14 + kLetter * Math.max(3, ...named.map(({ name }) => name.length));
  const x = [0, most];
  const { ticks } = ticksOf(...x);
  const xTicks = width < 420 ? ticks.filter((_, i) => i % 2 === 0) : ticks;
  const chart = frame({ width, height, title, label, xTitle: "steps", x, y, right,
    xTicks, xText: (tick) => numberText(tick), percent });
  drawBaselines(chart, lines);
  const { svg, atX, atY, bottom } = chart;
  const labels = [];
  for (const { name, style, points, faint } of series) {
    if (!points.length) continue;
    svg.append(s("path", { class: `line c${style}${faint ? " faint" : ""}`,
      d: pathOf(points, atX, atY) }));
    if (faint) continue;
    const [lastX, lastY] = points.at(-1);
    svg.append(markAt(style, atX(lastX), atY(lastY)));
    labels.push({ name, style, x: atX(lastX) + 9, y: atY(lastY) + 4 });
  }
  for (const { name, x: at, y: down } of moveApart(labels, kTop, bottom))
    svg.append(s("text", { class: "label", x: at, y: down }, name));
  return svg;
}

// Chart of points over bytes of cache: points [{name, style, bytes, value, seeds, trail, title}];
// `seeds` are values of single seeds, `trail` the earlier values.
export function cacheChart({ width, height, title, label, points, lines = [], percent }) {
  const bytes = points.map((point) => Math.log2(point.bytes));
  const x = [Math.min(...bytes) - 0.6, Math.max(...bytes) + 0.8];
  const values = points.flatMap(({ value, seeds, trail }) => [value, ...seeds, ...trail]);
  const y = percent ? [0, 103] : rangeOf(values);
  const xTicks = [];
  for (let power = Math.ceil(x[0]); power <= x[1]; ++power) xTicks.push(power);
  const chart = frame({ width, height, title, label, xTitle: "KV cache per token", x, y, right: 10,
    xTicks, xText: (tick) => bytesText(2 ** tick), percent });
  drawBaselines(chart, lines);
  const { svg, atX, atY, bottom, end } = chart;
  const labels = [];
  // A label goes to the left of its mark if it would cover another mark on the right.
  const placeOf = ({ bytes, value }) => [atX(Math.log2(bytes)), atY(value)];
  for (const point of [...points].sort((a, b) => b.bytes - a.bytes)) {
    if (!Number.isFinite(point.value)) continue;
    const at = atX(Math.log2(point.bytes));
    if (point.trail.length) {
      const ends = [...point.trail, point.value].map(atY);
      svg.append(s("path", { class: `trail c${point.style}`,
        d: `M${at} ${Math.max(...ends)}V${Math.min(...ends)}` }));
    }
    for (const value of point.seeds)
      svg.append(s("circle", { class: `dot c${point.style}`, cx: at, cy: atY(value), r: 3 }));
    svg.append(markAt(point.style, at, atY(point.value), point.title));
    const wide = kLetter * point.name.length + 12;
    const crowded = points.some((other) => {
      const [x, y] = placeOf(other);
      return x > at && x - at < wide && Math.abs(y - atY(point.value)) < kLine;
    });
    const side = at + wide > end || crowded ? "left" : "right";
    labels.push({ name: point.name, side, at, y: atY(point.value) });
  }
  // Only labels of points with the same bytes can meet.
  for (const first of labels) {
    const beside = labels.filter(({ side, at }) => side === first.side && at === first.at);
    if (beside[0] === first) moveApart(beside, kTop, bottom);
  }
  for (const { name, side, at, y: down } of labels)
    svg.append(s("text", { class: "label", x: at + (side === "left" ? -11 : 11), y: down + 4,
      "text-anchor": side === "left" ? "end" : "start" }, name));
  return svg;
}
