// Draws the pictures of the Markdown files and writes the page of studies from kept results:
// node train/view/draw.mjs [--check]
// With --check it writes nothing, and ends with 1 if a file differs from what it would write.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { bitsByBytes } from "./bits.js";
import { costsOfLosses } from "./charts.js";
import { demoPicture } from "./demo_picture.js";
import { lookupPicture } from "./lookup_picture.js";
import { cellTable, comparisonTable, controlTable, endTable, exposureTable, headTable,
  ownRatesTable } from "./lookup_study.js";
import { withStyle } from "./picture_file.mjs";
import { answerTable, courseTable, divergenceTable, equalBytesTable, lossTable, pairTable,
  positionTable, roundingTable, stepsTable, studySection, sweepTable } from "./tables.js";

const folder = new URL("../../", import.meta.url), kResults = "tests/bench/results/";
const read = (file) => readFileSync(new URL(file, folder), "utf8");
const results = (name) => JSON.parse(read(`${kResults}${name}.json`));

// Picture, function of results, results.
const kPictures = [
  ["train/compare/bits.svg", (r) => bitsByBytes(r, { most: 1.8 }), "bits_text"],
  ["train/compare/costs.svg", (r) => costsOfLosses(r, 0.05, ["latent-bias4x2", "mqax8"]),
    "shakespeare_heads"],
  ["train/compare/demo.svg", (r) => demoPicture(r, results("lookups")), "recall"],
  ["train/compare/lookup.svg", () => ({ svg: lookupPicture() })],
];

// Pairs of attentions that findings compare.
const pairs = (...all) => (r) => pairTable(r, all);
const kShared = pairs(...["/share", ":tie-kv=on"].flatMap((how) =>
  [["gqa2", "mha"], ["mqa", "gqa2"], ["mqax16", "mqa"]].map(([few, many]) => [few, many + how])));
const kShazeer = pairs(["mqa", "mha"], ["mha@16", "mha"], ["mqa@16", "mha"],
  ["mhax16:heads=1", "mqa"], ["mhax8:heads=2", "mqa"], ["mhax4", "mqa"]);
const kStaircase = pairs(["mqax32:rope-dim=8", "mqax32"],
  ["mla56+8:latent-norm=off", "mqax32:rope-dim=8"], ["mla56+8:q-rank=32", "mla56+8"],
  ["gqa2:qk-norm=on", "gqa2"], ["mla56+8", "gqa2"], ["mla56+8:qk-norm=on", "gqa2:qk-norm=on"]);

const kEqualBytes = (r) => equalBytesTable(r, [[["mqa", "bf16"], ["mha", "int4"]],
  [["mqa", "int4"], ["gqa2", "int3 rotated"]], [["mqa", "int4"], ["mla48+16", "int4"]]]);

// What rounding costs: types of all rows, and of parts.
const kRoundings = [["bf16", "int8", "int4", "int3", "int2"],
  ["bf16 rotated", "int8 rotated", "int4 rotated", "int3 rotated", "int2 rotated"],
  ["k=bf16+v=int2", "k=int2+v=bf16", "latent=bf16+rope=int2", "latent=int2+rope=bf16"]]
  .map((caches) => (r) => roundingTable(r, caches));

// The same on headers, with another way of rounding.
const roundedAs = (how) => (r) =>
  roundingTable(r, [4, 3, 2].map((bits) => `int${bits}${how}`));
const kEqualBytesOnHeaders = (r) => equalBytesTable(r, [[["mha", "int4"], ["mqa", "f32"]],
  [["mqa", "int8"], ["gqa2", "int4"]], [["gqa2", "int2 rotated"], ["mqa", "int4"]],
  [["mha", "int2 rotated"], ["gqa2", "int4"]]]);

// What a key in few bits costs where query heads share it, and where they do not.
const kKeys = ["k=int4", "k=int3", "k=int2"].flatMap((cache) => [cache, `${cache} rotated`]);
const kDivergences = [kKeys, kKeys.map((cache) => cache.replace("k", "v"))].flatMap((caches) => [
  (r) => roundingTable(r, caches, "kl"),
  (r) => divergenceTable(r, "mqax16", ["mhax16", "gqa2x16", "mhax16:heads=1"], caches)]);

// Studies: their files, in the order of their page, with their questions and answers.
const kStudies = [
  ["shakespeare_heads", "How many KV heads are enough?", [lossTable, positionTable, kShared],
    "One of four loses 0.002 ± 0.009 nats, one a quarter as wide 0.027."],
  ["shakespeare_seeds", "What do more seeds say?", [lossTable],
    "Windows and states stay near MHA; sharing between two layers costs, at one rate."],
  ["shakespeare_looks", "What do more seeds say of what was looked at earlier?", [lossTable]],
  ["shakespeare_narrow", "Four heads a quarter as wide?", [lossTable],
    "They lose 0.007 ± 0.012 of 1.47 nats on Shakespeare."],
  ["headers", "A smaller cache on headers?", [lossTable, courseTable, positionTable],
    "A quarter of MHA's bytes 0.11 to 0.15 of 0.96 nats after 2000 steps (three seeds)."],
  ["headers_long", "And after 8000 steps?", [lossTable, courseTable, positionTable],
    "Two KV heads 0.002 of 0.86 nats, a latent 0.014, one KV head 0.025, four narrow ones 0.154 " +
    "(two seeds, the whole validation part)."],
  ["headers_narrow", "What helps narrow heads?", [lossTable],
    "On headers, in 8000 steps, not 16 query heads, QK-norm or another base of RoPE (one seed)."],
  ["headers_muon", "At rates of Muon of their own?", [lossTable, sweepTable],
    "0.13 to 0.15 after 2000 steps: the middle one of three is the best for all five (one seed)."],
  ["headers_width64", "And at width 64?", [lossTable, sweepTable],
    "0.090 of 1.18 nats (one seed)."],
  ["headers_width256", "And at width 256?", [lossTable, courseTable],
    "0.027 and 0.116 of 0.86 nats by seed."],
  ["headers_qk_norm", "With QK-norm?", [lossTable, courseTable],
    "One KV head 0.078 and 0.015 behind MHA, which is 0.060 and 0.106 behind MHA without."],
  ["dictionary", "And on an English dictionary?", [lossTable, courseTable, positionTable],
    "One KV head 0.011 of 1.00 nats, a window of 32 tokens 0.048, four narrow heads 0.078."],
  ["shakespeare_canon", "What do convolutions, gates and sinks do?", [lossTable],
    "Added convolutions cost 0.03; gates and sinks show nothing."],
  ["shakespeare_controls", "What do they do after half of the steps?", [lossTable]],
  ["shakespeare_context64", "What does a cache cost at context 64?", [lossTable],
    "At 64 tokens `csa@32` loses 0.012; at 1024 MHA is no reference."],
  ["shakespeare_context256", "At context 256?", [lossTable]],
  ["shakespeare_context1024", "At context 1024?", [lossTable, positionTable]],
  ["shakespeare_rates", "Which learning rate suits which attention?", [sweepTable],
    "One rate does not suit all: 22 of 46 would take a larger one (one seed)."],
  ["shakespeare_rates1000", "Which suits them after 1000 steps?", [sweepTable]],
  ["shakespeare_rates2000", "Which suits them after 2000 steps?", [sweepTable]],
  ["bits_text", "Bits, heads or width?", [lossTable, ...kRoundings, kEqualBytes],
    "Bits to 8 are free; below 4, on this text, heads of `mha`, `gqa2` and `mqa` go before bits."],
  ["bits_headers", "Bits or heads on headers?", [lossTable, roundedAs(""), roundedAs(" rotated"),
    kEqualBytesOnHeaders],
    "Four heads in 4 bits are ahead of one in 8 (half the bytes); two in 2 are behind one in 4."],
  ...[["normal", "With levels for normal numbers?", ", normal levels"],
    ["group", "With a scale for each 16 numbers?", ", group 16"],
    ["recent", "With the 32 newest tokens as computed?", ", recent 32"]]
    .map(([name, question, how]) => [`bits_headers_${name}`, question, [roundedAs(how)]]),
  ["bits_recall", "Which bits does recall need?", [answerTable, ...kRoundings]],
  ["keys_text", "Does a shared key suffer more from few bits?", [lossTable, ...kDivergences],
    "In 3 bits 1.5 times as much as eight keys, with biases 2.2 times; 0.4 and 0.6 of a key for " +
    "one query head (0.14 M parameters)."],
  ["keys_text_bias", "And with biases?", [lossTable, ...kDivergences]],
  ...[["keys_recall", "In recall?"], ["keys_recall_bias", "In recall, with biases?"],
    ["keys_lookup", "In lookups?"], ["keys_lookup_bias", "In lookups, with biases?"]]
    .map(([name, question]) => [name, question,
      [answerTable, (r) => roundingTable(r, kKeys), ...kDivergences]]),
  ["mqar_bytes", "Which attention recalls 32 pairs in 2000 steps?", [answerTable],
    "Four of 13 in five of five seeds, at one rate: `mha`, `gqa2`, `mqa`, `gta2`."],
  ["recall", "How soon is recall of four pairs learned?", [stepsTable]],
  ["lookups", "How soon are lookups in six directions learned?", [stepsTable],
    "On one KV head not in 1600 steps, with QK-norm in 400; four take 900 and 675."],
  ...[["four", 4], ["eight", 8], ["16", 16], ["32", 32]].map(([count, pairs]) =>
    [`states${pairs}`, `What do states of 1,024 numbers recall of ${count} pairs?`,
      [answerTable, sweepTable]]),
  ...[["one direction", 1], ["six directions", 6]].map(([count, directions]) =>
    [`states_lookup${directions}`, `How soon do states learn lookups in ${count}?`,
      [stepsTable, sweepTable]]),
  ["states_text", "What do states lose on a text?", [lossTable, sweepTable],
    "KDA, delta, `ssd` and a window of 8 are ahead of `mha`, lightning is behind (0.11 M)."],
  ["recall_bytes", "How soon is recall of eight pairs learned?",
    [stepsTable, sweepTable],
    "One head and four after 420 steps, latents and narrow heads after 1140 and more."],
  ["shazeer", "At equal bytes, few whole heads or fewer KV heads?", [lossTable, kShazeer],
    "One KV head for all is ahead by 0.04 to 0.10 (0.11 M parameters)."],
  ["staircase", "Which step from GQA to MLA costs what?", [lossTable, kStaircase],
    "The rotated part 0.03 at one rate; MLA is 0.05 behind GQA, with a latent of the queries " +
    "0.03 (0.11 M parameters)."],
  ["queries", "KV heads or their ratio to query heads?", [lossTable],
    "Not told apart: one of four loses 0.011 ± 0.007 over 4, 8 and 16 query heads (0.10 M)."],
  ["mqar_figure", "Is recall here the field's task?", [answerTable, sweepTable],
    "One cell agrees: 99.8 % right, one seed."],
];

function studiesPage() {
  const files = readdirSync(new URL(kResults, folder)).filter((name) => name.endsWith(".json"));
  const missing = files.filter((file) => !kStudies.some(([name]) => `${name}.json` === file));
  if (missing.length) throw new Error(`no study of draw.mjs has ${missing.join(", ")}`);
  const about = "`node train/view/draw.mjs` writes this page from the files beside it. " +
    "[Findings](../../../train/compare/FINDINGS.md) says what follows from them, the " +
    "[method](../../../train/compare/README.md#method) what the numbers are. Intervals are 95 % " +
    "intervals of one attention; nothing corrects for their number. Unless it says otherwise, a " +
    "study is of Tiny Shakespeare with the preset `shakespeare` (0.8 M parameters, context 256, " +
    "2000 steps, parameters matched). `lookup.jsonl` has the runs " +
    "of the [study of heads on lookups](../../../train/compare/QUESTION.md), one a line.";
  const sections = kStudies.map(([name, question, tables, answer]) =>
    studySection({ file: `${name}.json`, question, tables, answer }, results(name)));
  return ["# Results of the studies", about, ...sections, lookupSection()].join("\n\n") + "\n";
}

// Tables of the study of lookups beside those of its plan.
function lookupSection() {
  const runs = lookupRuns();
  return ["## Query heads or KV heads, at equal bytes?", "`lookup.jsonl`, of a " +
    "[plan](../../../train/compare/QUESTION.md). `matters` is its word. A censored run makes a " +
    "ratio a bound, two make it 1.", comparisonTable(runs),
  "Steps to learn: median, least and most of eight seeds.", cellTable(runs),
  "Beside the plan: one KV head and four at rates tuned at one and three directions, not six.",
  ownRatesTable(runs),
  "Thousands of questions in each direction until then, medians:", exposureTable(runs),
  "Beside the plan: steps until 95 % of *all* answers are right, and the end.", endTable(runs),
  "Controls. 0.177 and 0.354 are the scales that heads of 32 and of 8 have anyway. Four query " +
    "heads on one head of 32 under other scales are beside the plan.", controlTable(runs),
  "Right answers of trained models (seed 1, rate 0.001) whose columns of `o_proj` for one head " +
    "are zero; `lookup.jsonl` has other seeds as well.", headTable(runs)].join("\n\n");
}

const lookupRuns = () =>
  read(`${kResults}lookup.jsonl`).trim().split("\n").map((line) => JSON.parse(line));

const files = [
  ...kPictures.map(([file, draw, name]) =>
    [file, () => withStyle(draw(name && results(name)).svg)]),
  [`${kResults}README.md`, studiesPage],
];
const isCheck = process.argv[2] === "--check";
for (const [file, make] of files) {
  const text = make();
  if (!isCheck) writeFileSync(new URL(file, folder), text);
  else if (read(file) !== text) {
    console.error(`${file} is not what the results show; run: node train/view/draw.mjs`);
    process.exitCode = 1;
  }
}
