// The pictures and texts of reports: properties over random results, kept results, and the colours.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import * as bits from "../../../train/view/bits.js";
import { areasOf, cacheAreas, scaleOf } from "../../../train/view/cache_picture.js";
import { chartsOf } from "../../../train/view/charts.js";
import { costCharts } from "../../../train/view/cost.js";
import { demoPicture } from "../../../train/view/demo_picture.js";
import { kLookup, lookupPicture } from "../../../train/view/lookup_picture.js";
import * as study from "../../../train/view/lookup_study.js";
import { kWeightShades, shadedText } from "../../../train/view/passage.js";
import { axisOf, chart, escaped, movedApart } from "../../../train/view/plot.js";
import { comparisonParts, runCharts, runsParts, runsText } from "../../../train/view/report.js";
import * as statistics from "../../../train/view/statistics.js";
import * as tables from "../../../train/view/tables.js";

const folder = new URL("../../../", import.meta.url);
const read = (file) => readFileSync(new URL(file, folder), "utf8");
const kKept = "tests/bench/results/", kept = (name) => JSON.parse(read(`${kKept}${name}.json`));
const includes = (text, ...parts) =>
  parts.forEach((part) => assert.ok(text.includes(part), `${part} is not in ${text}`));
const count = (text, pattern) => text.match(pattern)?.length ?? 0;
let seed = 1;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647; // Lehmer's generator
const whole = (least, most) => least + Math.floor(random() * (most - least + 1));
const list = (count, make) => Array.from({ length: count }, (_, i) => make(i));

// Elements of XML or HTML are closed in the order of their opening, and no text is a number's NaN.
function expectSound(text, what) {
  assert.doesNotMatch(text, /NaN|undefined|Infinity|\[object/, what);
  const open = [];
  for (const [, end, name, alone] of text.matchAll(/<(\/?)([a-z][a-z0-9]*)[^<>]*?(\/?)>/gi)) {
    if (end) assert.equal(open.pop(), name, what);
    else if (!alone) open.push(name);
  }
  assert.deepEqual(open, [], what);
  assert.equal(count(text, /</g), count(text, /<(\/?)[a-z][^<>]*>/gi), what);
}

// Results of `count` attentions, some of them without what earlier versions and failed runs lack.
function randomResults(count) {
  const answers = random() < 0.5, context = 2 ** whole(3, 8);
  const seeds = list(whole(1, 4), (i) => i + 1);
  const variants = list(count, (i) => {
    const spec = i ? `a${i}<&"` : "mha", runs = i && random() < 0.1 ? 0 : seeds.length,
      cost = i && runs ? random() * 0.1 - 0.02 : null;
    const byAnswer = () => ({ answer_accuracy: random(), answers_by_distance:
      list(3, (k) => ({ from: 2 ** k, asked: 10, right: whole(0, 10) })) });
    const withCurves = random() < 0.8;
    const rows = list(runs, (k) => ({ seed: seeds[k], val_loss: random(),
      loss_by_position: list(Math.max(1, Math.log2(context) - 4), (at) =>
        ({ from: at ? 16 * 2 ** at : 0, characters: 9, loss: random() })),
      ...(answers ? byAnswer() : {}), ...(withCurves
        ? { curve_steps: list(30, (at) => at + 1), curve_losses: list(30, random) } : {}) }));
    const cache = list(whole(0, 4), () => [
      { name: "k", heads: whole(1, 4), width: 8, window: whole(0, 1) * 4 },
      { name: "state", heads: 1, width: 4, per_sequence: true }]);
    return { spec, adjusted: "", runs: rows, cache, params: 1000,
      kv_cache_bytes_per_token: 2 ** (10 * random()), val_loss_mean: runs ? 1 + random() : null,
      val_loss_ci95: runs > 1 ? random() * 0.1 : null,
      answer_accuracy_mean: runs && answers ? random() : null, answer_accuracy_ci95: null,
      paired_difference_mean: cost, cost_median: cost,
      verdict: i && runs ? "open" : null, failures: [],
      costs: i ? list(runs, (k) => ({ seed: k + 1, cost: cost + 0.01 * random() })) : [],
      reading: random() < 0.5 ? null : { seed: 1, losses: [null, random(), 3],
        heads: [[], [{ entropy: 1, weights: [0.2, 0.8] }]] } };
  });
  return { data: "t", data_sha256: "a", context, seeds, common_seeds: seeds, config: { context },
    match: "none", sweep: "", only_answers: answers && random() < 0.5,
    entropy_per_character: random() < 0.5 ? 0.9 : null,
    answer_baselines: answers ? { guesser: 0.25, copier: 0.3 } : null,
    verdict: { metric: answers ? "answers" : "loss", reference: "mha", tolerance: 0.01, text: "",
      notes: [] }, command: "headcount compare </pre>", machine: "m", version: "v",
    machine_hours: 1, notes: [], variants, passage: { number: 1, characters: ["<", "\n", "b"],
      answers: random() < 0.5 ? null : [2], question: 2 } };
}

for (let i = 0; i < 200; ++i) {
  const results = randomResults(whole(1, 20));
  const drawn = results.variants.filter(({ runs }) => runs.length);
  const charts = chartsOf(results);
  for (const { title, svg, caption } of charts) {
    expectSound(svg, title);
    assert.ok(caption.endsWith("."), caption);
    const size = svg.match(/viewBox="0 0 (\S+) (\S+)"/).slice(1).map(Number);
    for (const [, x, y] of svg.matchAll(/class="mark \w+" transform="translate\((\S+) (\S+)\)"/g))
      assert.ok(x >= 0 && x <= size[0] && y >= 0 && y <= size[1],
        `a mark of ${title} lies outside: ${x} ${y}`);
  }
  const loss = charts.find(({ title }) => title === "Validation loss against KV cache");
  for (const { spec } of drawn) // each has its mark, and a name beside the mark or in the legend
    assert.ok(loss.svg.includes(`>${escaped(spec)}</text>`), `${spec} has no name`);
  const parts = comparisonParts(results, true);
  expectSound(parts.beside + parts.below.replaceAll(/(?<=<pre>[^<]*)"[^<]*/g, ""), "parts");
}

// Earlier versions' results are drawn, without the parts that they lack.
for (const file of readdirSync(new URL(kKept, folder)).filter((name) => name.endsWith(".json"))) {
  const parts = comparisonParts(JSON.parse(read(kKept + file)));
  expectSound(parts.beside + parts.below, file);
  assert.ok(!parts.below.includes("Where the loss arises"));
}
{
  const study = kept("shakespeare_context1024"), { svg } = chartsOf(study)[1];
  assert.equal(svg.match(/class="front" d="M(\S+) /)[1], // begins at the least cache
    svg.match(/class="mark c2" transform="translate\((\S+) /)[1]);
  study.variants[0].may_overfit = true; // so that losses at the end rank nothing
  const overfit = chartsOf(study)[1];
  assert.ok(!overfit.svg.includes("front") && !overfit.caption.includes("better"));
  const far = chartsOf({ ...kept("recall"), variants: [{ spec: "mha", runs: [{ val_loss: 1,
    answers_by_distance: [{ from: 2, asked: 4, right: 3 }, { from: 4, asked: 90, right: 9 }] }] }] })
    .find(({ title }) => title === "Right answers against distance");
  includes(far.caption, "Questions of a run: 90 at 4, where they are 20 or more.");
  const steps = chartsOf(kept("recall")).find(({ title }) => title.includes("compared with"));
  assert.equal(count(steps.svg, /class="dot/g), 20); // of answers and steps, a dot for each seed
}

// Seeds whose numbers overflow a cache have no part in what it costs.
{
  const study = kept("bits_text");
  const table = () => tables.roundingTable(study, ["int2"]).split("\n")[2];
  const through = study.variants[0].runs.map((run) =>
    run.rounded.find(({ cache }) => cache === "int2"));
  through[0].val_loss = null;
  assert.match(table(), /`mha` \| \+0/);
  for (const each of through) each.val_loss = null;
  assert.equal(table(), "| `mha` |  |");
  for (const each of [study, kept("bits_recall")]) expectSound(bits.bitsByBytes(each).svg, "bits");
  assert.equal(bits.bitsByBytes(study, { by: "kl" }), null);
  const { below } = comparisonParts(study), title = "against bytes of KV cache, by heads and bits";
  assert.ok(below.includes(`Loss ${title}`) && !below.includes("KL divergence"));
}
{
  const study = kept("bits_recall"), kl = (cache) => cache.includes("rotated") ? 0.25 : 0.5;
  for (const { runs } of study.variants)
    for (const through of runs.flatMap(({ rounded }) => rounded))
      through.change = { kl_mean: through.cache === "f32" ? 0 : kl(through.cache) };
  const { svg, title } = bits.bitsByBytes(study, { by: "kl" });
  expectSound(svg, "divergences");
  assert.match(title, /^KL divergence/);
  assert.match(svg, /mqa in int2: 0\.5000/);
  assert.match(svg, /mqa in int2 rotated: 0\.2500/);
  const caches = ["int2", "int2 rotated"];
  assert.match(tables.roundingTable(study, caches, "kl"), /\| `mqa` \| \+0\.5000[^|]*\| \+0\.2500/);
  assert.match(tables.divergenceTable(study, "mqa", ["mha"], caches),
    /\| `mqa` minus `mha` \| 0\.0000/);
  assert.ok(comparisonParts(study).below.includes("KL divergence against bytes"));
}

// The lookup text: its picture, whose squares each share one line with the piece, and its
// sentences, which the program has as well.
{
  const svg = lookupPicture();
  expectSound(svg, "lookup");
  for (const name of ["c1 band", "c2 band", "c3 area", "c4 band", "c5 band", "c7 band"])
    assert.equal(count(svg, new RegExp(`class="${name}"`, "g")), 4 + 1, name); // with the legend
  assert.equal(count(svg, />K</g), 4);
  const words = (text) => text.replace(/"\s*"/g, "").replace(/\s+/g, " ");
  includes(words(read("data/texts/lookup.cpp")), kLookup.slice(1, -1));
  includes(comparisonParts({ ...kept("recall"), data: "lookup" }).asked, svg);
}

// The demo: attentions that do not learn lie on the line that says so, at all of the steps; no line
// joins points of different caches.
{
  const { svg } = demoPicture(kept("recall"), kept("lookups"));
  expectSound(svg, "demo");
  includes(svg, "not learned in 1,600 steps", "mqax32: more than 1,600 steps",
    "mqax32:qk-norm=on: 400 steps", "gqa4x8:qk-norm=on: 675 steps");
  const [one, four] = [...svg.matchAll(/class="mark c1" transform="translate\(\S+ (\S+)\)/g)];
  assert.equal(svg.match(/class="level" d="M\S+ ([\d.]+)/)[1], one[1]);
  assert.ok(Number(one[1]) < Number(four[1]));
  assert.deepEqual(["c0", "c1"].map((colour) => [`line ${colour}`, `band ${colour}`, `bar ${colour}`]
    .map((name) => count(svg, new RegExp(`class="${name}"`, "g")))), [[0, 0, 2], [0, 0, 2]]);
}

// The study of lookups.
{
  const [one, shared, four] = [[1, 1], [4, 1], [4, 4]].map(([heads, kv]) =>
    study.kCells.find((cell) => cell.heads === heads && cell.kv === kv));
  const run = (cell, seed, learned, more) =>
    ({ ...cell, task: 6, side: 5, extra: "", cap: 6000, lr: 1e-3, seed, learned, loss: 1,
      directions: [0.99, 1], ...more });
  const tuning = [[1e-3, 500], [2e-3, 450], [4e-3, 500]].flatMap(([lr, steps]) =>
    [101, 102].map((seed) => run(four, seed, steps, { lr })));
  assert.equal(study.bestRate([...tuning, run(four, 101, 10, { lr: 8e-3 })], 6, four), 2e-3);
  const late = [5e-4, 1e-3].flatMap((lr) =>
    [101, 102].map((seed) => run(one, seed, null, { lr, loss: lr })));
  assert.equal(study.bestRate(late, 6, one), 5e-4); // none learned: by the loss
  assert.deepEqual([study.signTest(8, 8), study.signTest(7, 8), study.signTest(0, 8)],
    [1 / 256, 9 / 256, 1]);
  const runs = (seeds) => study.kSeeds.slice(0, seeds).flatMap((seed) => [run(four, seed, 500),
    run(shared, seed, seed < 8 ? 1000 : 500), run(one, seed, seed < 5 ? 1000 : null)]);
  const rows = (table) => table.split("\n").slice(2);
  assert.deepEqual(rows(study.comparisonTable(runs(8))), [
    "| G = 1 against 4, at H = 4 | 6 directions, primary | 7 of 8 | 0.035 | 2.00 (1.00 to 2.00) " +
      "| not shown |", // one equal pair, and by Holm 0.025 is wanted of the first
    "| H = 1 against 4, at G = 1 | 6 directions, primary | 4 of 8 | 0.637 | > 3.50 (1.00 to > " +
      "12.00) | not shown |"]);
  const better = runs(8).map((each) => each.heads === 1 ? { ...each, learned: null } : each);
  assert.deepEqual(rows(study.comparisonTable(better)).map((row) => row.split(" | ").at(-1)),
    ["matters |", "matters |"]);
  includes(study.comparisonTable(runs(5)), "5 of 5, incomplete |  |");
  includes(study.cellTable(runs(8)), "| 1 on 1 of 32 | –, – |  |  | 3,500 (1,000 to > 6,000), " +
    "4 censored |  |", "| 500 (500 to 500) |");
  includes(study.exposureTable([...runs(8), ...study.kSeeds.map((seed) =>
    run(four, seed, 400, { task: 3 }))]), "| 4 on 4 of 8 | – | 21 | 13 | – | 0.64 |");
  // With fewer directions, at the rate tuned there: not at that of six.
  const short = { task: 1, lr: 2e-3 };
  includes(study.ownRatesTable([...[1e-3, 2e-3].flatMap((lr) => [101, 102].map((seed) =>
    run(four, seed, 1 / lr, { task: 1, lr }))), ...study.kSeeds.flatMap((seed) =>
    [run(shared, seed, 200, short), run(four, seed, 100, short), run(four, seed, 300, { task: 1 })])]),
  "| 4 | 1 direction | , 0.002 | 200 (200 to 200) | 100 (100 to 100) | 8 of 8 | 2.00 |");
  includes(study.controlTable([...runs(8), run(one, 5, 15000, { cap: 20000 }),
    run(one, 1, 900, { extra: "--qk-norm on" })]), "15,000 (15,000 to 15,000); 1 of 8 runs | 99.0 %",
  "| 1 on 1 of 32 | `--qk-norm on` | 900");
  assert.deepEqual(rows(study.endTable([1, 2].map((seed) => run(one, seed, null,
    { most: seed > 1 ? null : 700, answers: 0.9 + seed / 100,
      directions: [1, 0.9 - seed / 10] })))),
  ["| 1 on 1 of 32 | 6 directions | 3,350 (700 to > 6,000), 1 censored; 2 of 8 runs | 91.5 % | " +
    "75.0 % |"]);
  assert.deepEqual(rows(study.headTable([...runs(1),
    ...[1, 2].map((seed) => ({ ...four, seed, zeroed: 1, directions: [1, 0.5] }))])),
  ["| 4 on 4 of 8 | head 2 | 100 % | 50 % |"]);
}

// Statistics of the tables of the Markdown files; draw.mjs --check compares the tables themselves.
const { studentT, estimate, pooledHalves } = statistics;
const rounded = (value) => Math.round(1e4 * value) / 1e4;
assert.deepEqual([1, 2, 3, 4, 30].map((df) => rounded(studentT(0.05, df))),
  [12.7062, 4.3027, 3.1824, 2.7764, 2.0423]); // of printed tables
assert.deepEqual(Object.values(estimate([1, 2, 3])).map(rounded), [2, 2.4841]);
// Two attentions and as many seeds as pairs: the pooled interval is that of paired differences. A
// third attention that follows the seeds exactly halves the variance and gives more degrees.
{
  const seeds = [1, 2, 3, 4];
  const row = (...losses) =>
    ({ spec: "a", runs: losses.map((loss, i) => ({ seed: seeds[i], val_loss: loss })) });
  const pair = [row(1, 3, 2, 9), row(1.1, 3.3, 2.2, 9.6)], control = row(5, 1, 9, 30);
  const halves = (variants, more) =>
    pooledHalves({ common_seeds: seeds, verdict: {}, variants, ...more })(4);
  const { each } = halves(pair), three = halves([...pair, row(1.05, 3.15, 2.1, 9.3)]);
  assert.equal(rounded(each), rounded(estimate([0.1, 0.3, 0.2, 0.6]).half));
  assert.equal(rounded(three.each / each),
    rounded(Math.sqrt(0.5) * studentT(0.05, 6) / studentT(0.05, 3)));
  assert.equal(each, halves([...pair, { ...control, spec: "c" }],
    { verdict: { controls: ["c"] } }).each);
}

// A course of losses: the reference's after each quarter, and what others lose more.
{
  const run = (by) =>
    [{ seed: 1, evaluations: [2, 4, 6, 8].map((step) => ({ step, loss: by / step })) }];
  assert.match(tables.courseTable({ steps: 8, verdict: { reference: "mha" }, variants: [
    { spec: "mha", runs: run(2) }, { spec: "mqa", runs: run(3) }] }),
  /after 6 \|.*\n\|.*\n.*1\.0000 \| 0\.5000 \|.*\n.*`mqa` \| \+0\.5000 \| \+0\.2500 \|/);
}

// Axes: places grow with values, and ticks lie where their values do.
for (let i = 0; i < 500; ++i) {
  const values = list(whole(1, 9), () => 10 ** (8 * random() - 4));
  for (const log of [0, 2, 10]) {
    const axis = axisOf(values, { log });
    const sorted = [...values].sort((a, b) => a - b).map(axis.place);
    sorted.forEach((place, k) => assert.ok(place >= (sorted[k - 1] ?? 0) && place <= 1));
    assert.ok(axis.ticks.length >= 1 && axis.ticks.length <= 30,
      `${axis.ticks.length} ticks, log ${log}: ${values}`);
  }
}

// Labels end apart and within their room, in their order.
for (let i = 0; i < 200; ++i) {
  const labels = list(whole(1, 12), (k) => ({ k, y: 300 * random() }));
  const order = [...labels].sort((a, b) => a.y - b.y).map(({ k }) => k);
  const moved = movedApart(labels, 40, 340);
  assert.deepEqual(moved.map(({ k }) => k), order);
  moved.forEach(({ y }, k) => assert.ok(y >= 40 && y <= 340.001 &&
    (!k || y - moved[k - 1].y >= 15.999)));
}

// A page shows what was asked, with the right answer, and which head points at it. The text of
// recall goes on with a random character where it asks, in whose place stands a question mark.
{
  const r = kept("recall"), weights = [0.02, 0.9, 0.03, 0.03, 0.02];
  r.config["line-length"] = 6;
  r.passage = { number: 1, characters: [..."SoMbSx"], answers: [5], question: 5 };
  r.variants[0].reading = { seed: 1, losses: Array(6).fill(0), heads: [[{ entropy: 1, weights }]] };
  const parts = comparisonParts(r);
  includes(parts.asked, ">SoMbS<b>?</b><", "its value, o, is");
  includes(parts.words, "<dt>KV B/token at 32</dt>");
  includes(parts.below, '<i class="d q" title="asked for">?</i>',
    "layer 1, head 1: 90\u00a0% on o, 4\u00a0characters back",
    "The right answer is o. Of mha, layer 1, head 1 looks most at it, with 90\u00a0% of its weight.");
}

// Heads of a lookup are shown on its board. What a wrong answer looked at is told.
{
  const r = kept("lookups"), heads = (...shares) => [[{ entropy: 1,
    weights: [...shares, 1 - shares.reduce((a, b) => a + b)] }]];
  const read = (i, said, of) => { r.variants[i].reading = { seed: 1, said, losses: Array(7).fill(0),
    heads: of }; };
  // Values 0 to 3 in the first row, and 1 in the last column; B asks for the second one.
  r.passage = { number: 7, question: 6, answers: [6], shown_for: "mqax32",
    characters: [..."\u2800\u281a\u2834\u284e\u2822", "B", "1"] };
  read(0, "1", heads(0.1, 0.8, 0, 0, 0));
  read(1, "2", heads(0, 0.2, 0.7, 0, 0));
  read(2, "3", heads(0.1, 0, 0, 0.1, 0));
  read(3, "0", heads(0.3, 0.5, 0, 0, 0));
  const { below, asked } = comparisonParts(r);
  includes(below, "Passage 7 of", "chosen because mqax32 loses more on its last answer",
    ": 80\u00a0% on the right piece</figcaption>",
    "The right answer is 1. Of its heads, layer 1, head 1 looks most at the piece on the line, " +
    "with 80\u00a0% of its weight.",
    "The right answer is 1, and mqax32 gives 2. Its heads look most at a wrong piece, of value " +
    "2, with 70\u00a0% of their weight; the right piece has 20\u00a0%.",
    "gives 3. Its heads look most at B, which is no piece, with 80\u00a0% of their weight; the " +
    "right piece has 0\u00a0%.",
    "gives 0. Its heads look most at the right piece, with 50\u00a0% of their weight, which is " +
    "not enough.");
  assert.equal(count(below, /class="small-board/g), 4);
  includes(asked, "small-board", "B asks for the piece on the dotted line");
  for (const part of [below, asked])
    expectSound(part.replaceAll(/<pre>.*?<\/pre>/gs, ""), "boards");
}

// The name of a level finds a place beside a curve that crosses it.
{
  const near = list(60, (x) => ({ x, y: x < 30 ? 25 + x / 10 : 31 - x / 10 }));
  const svg = chart({ kind: "lines", title: "t", xTitle: "step", marks: 1,
    series: [{ name: "a", style: 0, points: [...near, { x: 100, y: 100 }] }],
    levels: [{ y: 25, name: "guessing" }] });
  const [x, y, anchor] = svg.match(/class="quiet base" x="(\S+)" y="(\S+)" text-anchor="(\w+)"/)
    .slice(1), left = x - 60 * { start: 0, middle: 0.5, end: 1 }[anchor];
  for (const [a, b] of svg.match(/class="line c0" d="M(.*?)"/)[1].split("L")
    .map((place) => place.split(" ").map(Number)))
    assert.ok(a < left || a > left + 60 || b > Number(y) + 3 || b < y - 11, `a curve at ${a} ${b}`);
}

// Shades: neighbours that look alike are one element, and nothing of the text is lost.
assert.equal(shadedText([..."abc<"], [0.7, 0.7, 0, 0.1], kWeightShades),
  '<i class="l4">ab</i>c<i class="l2">&#60;</i>');
assert.equal(shadedText(["a", "\n"], [0, 0], kWeightShades, { answers: [0] }),
  '<i class="d">a</i>↵\n');

// Each character is one visible sign: controls, signs of direction and no characters have one that
// stands for them, marks a circle below. XML has none of the former.
const odd = [..."\u0001\u009b\u202e\uffff\u0301\tя中"];
assert.equal(shadedText(odd, odd.map(() => 0), kWeightShades),
  "\ufffd\ufffd\ufffd\ufffd\u25cc\u0301⇥я中");
assert.equal(escaped("\u0001\u0085\ufffe\uffffa"), "\ufffd\ufffd\ufffd\ufffda");

// A line ends, with a mark, where its run does, and nothing leads on to its name.
{
  const line = (name, style, x) => ({ name, style, points: [{ x: 0, y: 0 }, { x, y: 1 }] });
  const svg = chart({ kind: "lines", title: "t", xTitle: "step", marks: 1,
    series: [line("early", 0, 100), line("late", 1, 900)] });
  const ends = ["c0", "c1"].map((colour) =>
    svg.match(new RegExp(`line ${colour}" d=".*L(\\S+) `))[1]);
  assert.ok(Number(ends[0]) < Number(ends[1]) - 200, ends);
  const drawn = [...svg.matchAll(/<path class="([^"]*\bc0)" (?:d|transform)="([^"]*)"/g)];
  assert.deepEqual(drawn.map(([, name]) => name), ["line c0", "mark c0", "mark c0"]);
  includes(drawn[1][2], `translate(${ends[0]} `);
}

// Training runs.
{
  const plain = { steps: 60, lr: 0.001 };
  const runOf = (run, { loss = 1, steps = 60, validated = true, settings = {}, ...more } = {}) => {
    const curve = list(steps, (i) => ({ step: i + 1, loss: loss * (1 + 1 / (i + 1)),
      ...(validated && (i + 1) % 20 === 0 ? { val_loss: loss * (1.1 + 1 / (i + 1)) } : {}) }));
    return { run, context: 64, steps_done: steps, data_sha256: "a", curve,
      val_loss: validated ? curve.at(-1).val_loss : null, settings: { ...plain, ...settings },
      starts: [{ command: "</pre><script>", version: "v", machine: "", from_step: 0 }], ...more };
  };
  const [losses] = runCharts([runOf("mha"), runOf("mla", { loss: 1.2 })]);
  assert.equal(count(losses.svg, /class="line c\d+ faint"/g), 2);
  includes(losses.svg, "<title>mha, step 20: validation loss 1.1500</title>");
  const [bare] = runCharts([runOf("mha"), runOf("mqa", { validated: false, steps: 2 })]);
  includes(bare.caption, "Without an evaluation, the training loss is the thick line: mqa.");
  assert.equal(count(bare.svg, />mqa<\/text>/g), 1); // a short run beside a long one
  assert.ok(runCharts([runOf("mha", { steps: 50000, validated: false })])[0].svg.length < 20000);
  for (const [second, text] of [
    [runOf("b", { loss: 2 }), "a has the least validation loss, 1.1167."],
    [runOf("b", { validated: false, steps: 3 }), "Not all steps are done of b (3 of 60)."],
    [runOf("b", { data_sha256: "b" }), "The runs are on different texts"],
    [runOf("b", { context: 32 }), "The runs have different contexts"],
    [runOf("b", { settings: { "eval-characters": 5 } }), "different parts of their text"],
    [runOf("b", { settings: { "validation-part": 0.2 } }), "different parts of their text"],
    [runOf("b", { settings: { precision: "bf16" } }), "differ in precision"],
  ])
    includes(runsText([runOf("a"), second]), text);
  const { below } = runsParts([runOf("a"), runOf("b", { settings: { lr: 0.1 * 0.003 } })]);
  const [differing, alike] = below.split("Settings that all runs share");
  includes(differing, '<th scope="row">lr</th><td>0.001</td><td>0.0003</td>');
  assert.ok(!differing.includes(">steps<"), differing);
  includes(alike, '<th scope="row">steps</th><td>60</td>');
  expectSound(below, "runs");
}

// Caches, also of layers without rows, of states alone and of layers that share: equal areas are
// equal bytes, of whatever number type, except where one would be too flat or narrow to be seen.
for (let i = 0; i < 50; ++i) {
  const contexts = list(whole(1, 3), (k) => 4 ** (k + whole(1, 3))).sort((a, b) => a - b);
  const block = () => ({ name: "rows <&", heads: whole(1, 4), width: whole(1, 99),
    window: whole(0, 1) * 8, block: whole(1, 4), bytes: 1 + random() });
  const state = { name: "state", heads: 1, width: whole(1, 999), per_sequence: true, bytes: 4 };
  const caches = list(whole(1, 3), (k) => ({ spec: `model ${k}<`,
    cache: list(whole(0, 200), () => [[], [block()], [state], [block(), state]][whole(0, 3)]),
    points: contexts.map((tokens) => [tokens, whole(0, 1) * tokens]) }));
  const room = random() < 0.5 ? { bytes: 100, name: "100 B of memory" } : undefined;
  const charts = costCharts({ contexts, batch: 1, caches, room });
  for (const { svg, caption } of charts) expectSound(svg, caption);
  assert.equal(charts.length, caches.some(({ cache }) => cache.length) ? 2 : 1);
  const tokens = contexts.at(-1), size = 1e6;
  for (const { cache } of caches) {
    const layers = areasOf(cache, tokens, contexts[0], "x"), scale = scaleOf([layers], size);
    const svg = cacheAreas(layers, { x: 0, y: 0, width: size, height: size, scale, tokens,
      classOf: () => "" });
    const drawn = [...svg.matchAll(/class="area [^>]*width="(\S+)" height="(\S+)"/g)];
    layers.flat().forEach(({ bytes }, k) => {
      const area = drawn[k][1] * drawn[k][2] / (scale * size / tokens);
      assert.ok(Math.abs(4 * area / bytes - 1) < 0.02, `${4 * area} and ${bytes}`);
    });
  }
}

// A rotary key can be seen beside a latent: the latent gives it room where both have some.
{
  const cache = list(61, () => [{ name: "latent", heads: 1, width: 512 },
    { name: "rope", heads: 1, width: 64 }]);
  const widths = (size) => {
    const layers = areasOf(cache, 64, 64, "x"), scale = scaleOf([layers], size);
    return [...cacheAreas(layers, { x: 0, y: 0, width: size, height: 64, scale, tokens: 64,
      classOf: (name) => name }).matchAll(/class="area (\w+)" [^>]*width="(\S+)"/g)]
      .slice(0, 2).map(([, name, width]) => `${name} ${width}`);
  };
  assert.deepEqual(widths(492), ["latent 4.1", "rope 2"]);
  assert.deepEqual(widths(150), ["latent 1.6", "rope 0.2"]);
}

// Colours stand out from the paper, and readers who see no red, no green or no blue tell any two
// apart (Machado, Oliveira and Fernandes, 2009; Oklab, in which a difference that is just seen is
// about 0.02).
const kReaders = [[1, 0, 0, 0, 1, 0, 0, 0, 1],
  [0.1523, 1.0526, -0.2049, 0.1145, 0.7863, 0.0992, -0.0039, -0.0481, 1.0520],
  [0.3673, 0.8607, -0.2280, 0.2801, 0.6725, 0.0474, -0.0118, 0.0429, 0.9689],
  [1.2555, -0.0767, -0.1788, -0.0784, 0.9308, 0.1476, 0.0047, 0.6914, 0.3039]];
const kCones = [0.4122, 0.5363, 0.0514, 0.2119, 0.6807, 0.1074, 0.0883, 0.2817, 0.6300];
const kLab = [0.2105, 0.7936, -0.0041, 1.9780, -2.4286, 0.4506, 0.0259, 0.7828, -0.8087];
const times = (m, v) => [0, 3, 6].map((i) => m[i] * v[0] + m[i + 1] * v[1] + m[i + 2] * v[2]);
const linear = (hex) => hex.slice(1).replace(/^(.)(.)(.)$/, "$1$1$2$2$3$3").match(/../g)
  .map((c) => parseInt(c, 16) / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (hex) => times([0.2126, 0.7152, 0.0722, 0, 0, 0, 0, 0, 0], linear(hex))[0] + 0.05;
const oklab = (hex, reader) => times(kLab, times(kCones, times(reader, linear(hex))
  .map((c) => Math.min(1, Math.max(0, c)))).map(Math.cbrt));
const schemesOf = (file) => read(`train/view/${file}.css`).split("prefers-color-scheme:dark");
for (const [i, scheme] of schemesOf("plot").entries()) {
  const card = light(scheme.match(/--card:(#\w+)/)[1]);
  const contrast = (hex) => Math.max(light(hex), card) / Math.min(light(hex), card);
  const colours = [...scheme.matchAll(/--c\d+:(#\w+)/g)].map(([, hex]) => hex);
  assert.equal(colours.length, 14);
  for (const colour of colours) assert.ok(contrast(colour) >= 2.95, colour);
  for (const [shades] of schemesOf("passage")[i].matchAll(/--l1.*?--l4:#\w+/g)) // one by one darker
    shades.match(/#\w+/g).map(contrast).reduce((last, next) =>
      (assert.ok(next >= 1.15 * last, shades), next), 1);
  for (const reader of kReaders) {
    const seen = colours.map((colour) => oklab(colour, reader));
    seen.forEach((one, i) => seen.slice(0, i).forEach((other, k) => assert.ok(
      Math.hypot(...one.map((c, at) => c - other[at])) >= 0.05, `${colours[i]}, ${colours[k]}`)));
  }
}
// A run that did not learn takes more than all steps.
{
  const steps = kept("recall"), late = tables.variant(steps, "mqa");
  [late.runs[0].learned_at, late.costs[0].cost] = [null, null];
  assert.match(tables.stepsTable(steps, ["mqa"]), /\| 140 \(120 to > 1500\) \| 0 \(\S+ to more\)/);
  // Equal caches are no axis.
  const equal = comparisonParts(kept("lookups")).beside;
  assert.ok(!equal.includes("Steps to learn against"));
  includes(equal, ">learned 99 %<"); // a name beside its line
  const lookups = kept("states_lookup6"), { beside } = comparisonParts(lookups);
  assert.match(tables.stepsTable(lookups, ["mqax32"]), /\| not in 3000 \| - \| not learned \|/);
  includes(beside, "No seed of mqax32 and ssd:head-dim=16:state-dim=16 learned in 3,000 steps. " +
    "Not all seeds of kdax16 did.",
  "<title>mqax32: not learned in 3,000 steps, 256\u00a0B a token</title>");
  assert.equal(beside.match(/class="level" d="M\S+ ([\d.]+)/)[1], // its mark lies on the line
    beside.match(/class="mark c1" transform="translate\(\S+ (\S+)\)/)[1]);
}
