// Draws the pictures and tables of the Markdown files from kept results:
// node train/view/draw.mjs [--check]
// A table stands below the line <!-- table: NAME -->, up to an empty line. With --check it writes
// nothing, and ends with 1 if a file differs from what it would write.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { bitsByBytes } from "./bits.js";
import { costsOfLosses } from "./charts.js";
import { demoPicture } from "./demo_picture.js";
import { lookupPicture } from "./lookup_picture.js";
import { cellTable, comparisonTable, controlTable, endTable, exposureTable, headTable }
  from "./lookup_study.js";
import { withStyle } from "./picture_file.mjs";
import { answerTable, divergenceTable, equalBytesTable, lossTable, pairTable, positionTable,
  roundingTable, stepsTable, studySection, sweepTable } from "./tables.js";

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

// Tables of the findings: name, function of results, results.
const kFindings = "train/compare/FINDINGS.md";
const kTables = {
  shared: [(r) => pairTable(r, ["/share", ":tie-kv=on"].flatMap((how) =>
    [["gqa2", "mha"], ["mqa", "gqa2"], ["mqax16", "mqa"]]
      .map(([few, many]) => [few, many + how]))), "shakespeare_heads"],
  bits: [(r) => roundingTable(r, ["int8", "int4", "int3", "int2 rotated"]), "bits_text"],
  equalBytes: [(r) => equalBytesTable(r, [[["mqa", "bf16"], ["mha", "int4"]],
    [["mqa", "int4"], ["gqa2", "int3 rotated"]], [["mqa", "int4"], ["mla48+16", "int4"]]]),
  "bits_text"],
  shazeer: [(r) => pairTable(r, [["mqa", "mha"], ["mha@16", "mha"], ["mqa@16", "mha"],
    ["mhax16:heads=1", "mqa"], ["mhax8:heads=2", "mqa"], ["mhax4", "mqa"]]), "shazeer"],
  staircase: [(r) => pairTable(r, [["mqax32:rope-dim=8", "mqax32"],
    ["mla56+8:latent-norm=off", "mqax32:rope-dim=8"], ["mla56+8:q-rank=32", "mla56+8"],
    ["gqa2:qk-norm=on", "gqa2"], ["mla56+8", "gqa2"],
    ["mla56+8:qk-norm=on", "gqa2:qk-norm=on"]]), "staircase"],
};

// What rounding costs: types of all rows, and of parts.
const kRoundings = [["bf16", "int8", "int4", "int3", "int2"],
  ["bf16 rotated", "int8 rotated", "int4 rotated", "int3 rotated", "int2 rotated"],
  ["k=bf16+v=int2", "k=int2+v=bf16", "latent=bf16+rope=int2", "latent=int2+rope=bf16"]]
  .map((caches) => (r) => roundingTable(r, caches));

// What a key in few bits costs where query heads share it, and where they do not.
const kKeys = ["k=int4", "k=int3", "k=int2"].flatMap((cache) => [cache, `${cache} rotated`]);
const kShared = [kKeys, kKeys.map((cache) => cache.replace("k", "v"))].flatMap((caches) => [
  (r) => roundingTable(r, caches, "kl"),
  (r) => divergenceTable(r, "mqax16", ["mhax16", "gqa2x16", "mhax16:heads=1"], caches)]);

// Studies: their files, in the order of their page, with their questions.
const kStudies = [
  ["shakespeare_heads", "How many KV heads are enough?", [lossTable, positionTable]],
  ["shakespeare_seeds", "What do more seeds say?", [lossTable]],
  ["shakespeare_looks", "What do more seeds say of what was looked at earlier?", [lossTable]],
  ["headers", "What does one KV head cost on headers?", [lossTable, positionTable]],
  ["shakespeare_canon", "What do convolutions, gates and sinks do?", [lossTable]],
  ["shakespeare_controls", "What do they do after half of the steps?", [lossTable]],
  ["shakespeare_context64", "What does a cache cost at context 64?", [lossTable]],
  ["shakespeare_context256", "At context 256?", [lossTable]],
  ["shakespeare_context1024", "At context 1024?", [lossTable, positionTable]],
  ["shakespeare_rates", "Which learning rate suits which attention?", [sweepTable]],
  ["shakespeare_rates1000", "Which suits them after 1000 steps?", [sweepTable]],
  ["shakespeare_rates2000", "Which suits them after 2000 steps?", [sweepTable]],
  ["bits_text", "Bits, heads or width?", [lossTable, ...kRoundings]],
  ["bits_recall", "Which bits does recall need?", [answerTable, ...kRoundings]],
  ["keys_text", "Does a shared key suffer more from few bits?", [lossTable, ...kShared]],
  ["keys_text_bias", "And with biases?", [lossTable, ...kShared]],
  ["keys_recall", "In recall?", [answerTable, (r) => roundingTable(r, kKeys), ...kShared]],
  ["mqar_bytes", "Which attention recalls 32 pairs in 2000 steps?", [answerTable]],
  ["recall", "How soon is recall of four pairs learned?", [stepsTable]],
  ["lookups", "How soon are lookups in six directions learned?", [stepsTable]],
  ["recall_bytes", "How soon is recall of eight pairs learned, at the best of three rates?",
    [stepsTable, sweepTable]],
  ["shazeer", "At equal bytes, few whole heads or fewer KV heads?", [lossTable]],
  ["staircase", "Which step from GQA to MLA costs what?", [lossTable]],
  ["queries", "Does the number of KV heads count, or the ratio to query heads?", [lossTable]],
  ["mqar_figure", "Is recall here the field's task?", [answerTable, sweepTable]],
];

function studiesPage() {
  const files = readdirSync(new URL(kResults, folder)).filter((name) => name.endsWith(".json"));
  const missing = files.filter((file) => !kStudies.some(([name]) => `${name}.json` === file));
  if (missing.length) throw new Error(`no study of draw.mjs has ${missing.join(", ")}`);
  const about = "`node train/view/draw.mjs` writes this page from the files beside it. " +
    "[Findings](../../../train/compare/FINDINGS.md) says what follows from them, the " +
    "[method](../../../train/compare/README.md#method) what the numbers are. Intervals are 95 % " +
    "intervals of one attention; nothing corrects for their number. `lookup.jsonl` has the runs " +
    "of the [study of heads on lookups](../../../train/compare/QUESTION.md), one a line.";
  const sections = kStudies.map(([name, question, tables]) =>
    studySection({ file: `${name}.json`, question, tables }, results(name)));
  return ["# Results of the studies", about, ...sections].join("\n\n") + "\n";
}

// The text of a file with its tables, each made by `make(name)`, which has these names.
function withTables(file, names, make) {
  const used = new Set(), table = /(?<=<!-- table: (\S+) -->\n)(?:.+\n)*/g;
  const made = read(file).replace(table, (_, name) => {
    used.add(name);
    return `${make(name)}\n`;
  });
  const missing = names.filter((name) => !used.has(name));
  if (missing.length) throw new Error(`${file} has no table ${missing.join(", ")}`);
  return made;
}

function findingTable(name) {
  const [make, file] = kTables[name], [, question] = kStudies.find(([study]) => study === file);
  const anchor = question.toLowerCase().replace(/[^\w -]/g, "").replaceAll(" ", "-");
  const study = ` ([study](../../${kResults}README.md#${anchor})) |`;
  return make(results(file)).replace(/(?<=^\| [^|]+) \|/, study);
}

// Tables of the study of lookups, of the lines of a file, one for each run.
const kQuestion = "train/compare/QUESTION.md";
const kLookupTables = { comparisons: comparisonTable, cells: cellTable, ends: endTable,
  questions: exposureTable, controls: controlTable, heads: headTable };
const lookupRuns = () =>
  read(`${kResults}lookup.jsonl`).trim().split("\n").map((line) => JSON.parse(line));

const files = [
  ...kPictures.map(([file, draw, name]) =>
    [file, () => withStyle(draw(name && results(name)).svg)]),
  [kFindings, () => withTables(kFindings, Object.keys(kTables), findingTable)],
  [kQuestion, () => withTables(kQuestion, Object.keys(kLookupTables), (name) =>
    kLookupTables[name](lookupRuns()))],
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
