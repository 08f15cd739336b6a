// Runs of the study of query heads and KV heads on lookups, in the order of QUESTION.md.
// Usage: train/compare/studies.sh lookup FOLDER
// Each finished run is a line of FOLDER/runs.jsonl; a second call continues the first.
import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { bestRate, kCells, kLowRates, kNarrow, kOwnRates, kPrimary, kRates, kSeeds, kTuningSeeds }
  from "../view/lookup_study.js";

const folder = process.argv[2], file = `${folder}/runs.jsonl`;
const program = process.env.HEADCOUNT ?? "headcount";
mkdirSync(folder, { recursive: true });
const lines = (name) =>
  readFileSync(name, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const runs = existsSync(file) ? lines(file) : [];

const nameOf = (run) => JSON.stringify([run.task, run.side, run.heads, run.kv, run.width, run.extra,
  run.lr, run.seed, run.cap]);

// Trains a run unless it is there: `task` is the number of directions, 0 for squares.
function train(run) {
  run = { side: 5, extra: "", cap: 6000, ...run };
  if (runs.some((other) => nameOf(other) === nameOf(run))) return;
  const out = `${folder}/run`;
  const decay = run.extra.includes("--decay") ? "" : "--decay constant";
  const flags = `train --data lookup --directions ${run.task} --side ${run.side} --attention gqa
    --kv-heads ${run.kv} --heads ${run.heads} --head-dim ${run.width} --lr ${run.lr}
    ${decay} ${run.extra} --steps ${run.cap} --eval-every ${run.task === 1 ? 10 : 25}
    --eval-characters 8192 --checkpoint-every 0 --stop-at-answers 99 --seed ${run.seed}
    --threads 1 --quiet --format json --force --out ${out}`;
  const { status, stdout, stderr, error } =
    spawnSync(program, flags.trim().split(/\s+/), { encoding: "utf8" });
  if (status !== 0 && status !== 4) throw error ?? new Error(`${flags}\n${stderr}`);
  const diverged = status === 4;
  const result = diverged ? {} : JSON.parse(stdout);
  const by = result.answers_by_direction ?? [];
  const most = diverged ? undefined : lines(`${out}/metrics.jsonl`).find((step) =>
    step.val_answer_accuracy >= 0.95);
  const done = { ...run, params: result.params ?? null, learned: result.learned_at ?? null,
    most: most?.step ?? null, answers: result.val_answer_accuracy ?? null,
    loss: result.val_loss ?? null,
    directions: by.map(({ asked, right }) => Number((right / asked).toFixed(3))) };
  appendFileSync(file, JSON.stringify(done) + "\n");
  runs.push(done);
  rmSync(out, { recursive: true, force: true });
}

// The cell's own rate for a task: that of the fewest steps over the tuning seeds. Rates that lie at
// an edge of those tried are tried beyond it.
function tuned(task, cell) {
  const rates = [...kRates];
  for (;;) {
    for (const seed of kTuningSeeds) for (const lr of rates) train({ task, ...cell, lr, seed });
    const best = bestRate(runs, task, cell);
    const lowest = Math.min(...rates), highest = Math.max(...rates);
    if (best === lowest && lowest > 1e-4) rates.push(lowest / 2);
    else if (best === highest && highest < 0.03) rates.push(highest * 2);
    else return best;
  }
}
const rateOf = (task, cell) => tuned(task === 0 ? 0 : 6, cell);

// Fresh seeds of cells, seed by seed, so that a study that is cut short has pairs.
function compare(task, cells, more = {}, rates = cells.map((cell) => rateOf(task, cell))) {
  for (const seed of kSeeds)
    cells.forEach((cell, i) => train({ task, ...cell, lr: rates[i], seed, ...more }));
}

const cell = (heads, kv) => kCells.find((one) => one.heads === heads && one.kv === kv);
// One KV head last, whose runs are the longest.
const others = kCells.filter((one) => !kPrimary.includes(one)).sort((a, b) =>
  (a.kv === 1) - (b.kv === 1));
const one = cell(1, 1), four = cell(4, 4);
compare(6, kPrimary);
compare(0, kPrimary);
compare(6, [one, four], { extra: "--score-scale 1" });
compare(6, [one], { extra: "--score-scale 0.354" });
compare(6, [one, four], { extra: "--qk-norm on" });
// Beside the plan: four query heads under the scales that let one learn.
for (const extra of ["--score-scale 1", "--qk-norm on"]) compare(6, [cell(4, 1)], { extra });
// Beside the plan: whether one KV head misses 99 % because its rate stays where it is or is too
// great, and whether a narrow one on its own does better.
compare(6, kPrimary, { extra: "--decay cosine --min-lr 1e-5" });
for (const lr of kLowRates) for (const seed of kSeeds) train({ task: 6, ...cell(4, 1), lr, seed });
compare(6, [kNarrow]);
for (const other of others) compare(6, [other]);
compare(3, kPrimary);
for (const seed of kSeeds) {
  const late = runs.find((run) => run.task === 6 && run.extra === "" && run.seed === seed &&
    run.heads === 1 && run.cap === 6000 && run.learned === null);
  if (late) train({ task: 6, ...one, lr: rateOf(6, one), seed, cap: 20000 });
}
compare(3, others);
compare(0, others);
compare(1, kCells);
for (const side of [5, 7, 11])
  for (const width of [2, 4, 8])
    for (const seed of kSeeds)
      train({ task: 1, side, heads: 4, kv: 4, width, lr: rateOf(6, four), seed });
// Beside the plan: rates tuned at one and three directions themselves, and whether eight query
// heads, and four at the same rate, learn six on one KV head in more steps.
for (const task of [1, 3])
  for (const pair of kOwnRates) compare(task, pair, {}, pair.map((each) => tuned(task, each)));
for (const seed of kSeeds) {
  train({ task: 6, ...cell(8, 1), lr: rateOf(6, cell(8, 1)), seed, cap: 20000 });
  train({ task: 6, ...cell(4, 1), lr: kLowRates[0], seed, cap: 20000 });
}
// Scales that are those of one of the cells anyway, to three digits, come last.
compare(6, [four], { extra: "--score-scale 0.354" });
compare(6, [one, four], { extra: "--score-scale 0.177" });
