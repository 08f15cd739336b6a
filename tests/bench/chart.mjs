// Draws the table that a benchmark prints, as a chart in SVG: one line for each name in the first
// column. Axes are logarithmic, but for losses.
// Usage: decode | node tests/bench/chart.mjs decode > decode.svg
//        versus_pytorch.py loss ... | node tests/bench/chart.mjs loss > loss.svg
import { readFileSync } from "node:fs";
import { numberText } from "../../train/view/format.js";
import { chart } from "../../train/view/plot.js";
import { withStyle } from "../../train/view/picture_file.mjs";

// `line`: a line of the table, with its name, abscissa and ordinate.
const kTables = {
  decode: { title: "Decoding: tokens per second against context", xTitle: "context, tokens",
    yTitle: "tokens per second", line: /^(\S.*?) +(\d+) +[\d.]+ +[\d.]+ +(\d+) / },
  loss: { title: "Loss on the validation part against seconds of training",
    xTitle: "seconds of training", yTitle: "nats per character", y: {},
    line: /^(.+) ([\d.]+) \d+ ([\d.]+)$/ },
};

const table = kTables[process.argv[2]];
if (!table) {
  console.error(`usage: BENCHMARK | node chart.mjs ${Object.keys(kTables).join("|")} > FILE.svg`);
  process.exit(2);
}
const series = new Map();
for (const line of readFileSync(0, "utf8").split("\n")) {
  const [, name, ...numbers] = line.match(table.line) ?? [];
  const [x, y] = numbers.map(Number);
  if (!(y > 0)) continue;
  if (!series.has(name)) series.set(name, { name, style: series.size, points: [] });
  series.get(name).points.push({ x, y, hover: `${name}, ${table.xTitle} ${numberText(x)}: ${y}` });
}
if (!series.size) {
  console.error(`chart.mjs: standard input has no line of the table for ${process.argv[2]}`);
  process.exit(3);
}
const byNumber = { label: (value) => numberText(value) };
process.stdout.write(withStyle(chart({ kind: "lines", y: { log: 10, ...byNumber }, ...table,
  caption: `${table.yTitle} against ${table.xTitle}`, x: { log: 2, ...byNumber },
    series: [...series.values()] })));
