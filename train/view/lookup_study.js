// Analysis of the study of query heads and KV heads on lookups: train/compare/QUESTION.md has its
// plan and its tables. A run is an object: task (number of directions, 0 for squares), heads, kv,
// width, lr, seed, cap (most steps), learned (step, or null), most (step at which 95 % of all
// answers were right, or null), answers and directions (shares right at the end), and what a
// control changes.
import { numberText } from "./format.js";
import { markdown } from "./tables.js";

export const kRates = [5e-4, 1e-3, 2e-3, 4e-3], kTuningSeeds = [101, 102];
export const kSeeds = [1, 2, 3, 4, 5, 6, 7, 8];
// Query heads by KV heads, of 64 cached numbers a token; the last are 16 heads of 2.
export const kCells = [[1, 1], [2, 1], [4, 1], [8, 1], [2, 2], [4, 2], [8, 2], [4, 4], [8, 4],
  [8, 8], [16, 16]].map(([heads, kv]) => ({ heads, kv, width: 32 / kv }));
const cellOf = (heads, kv) => kCells.find((cell) => cell.heads === heads && cell.kv === kv);
// Cells of the two primary comparisons: KV heads 1 and 4 at 4 query heads, query heads 1 and 4 at
// one KV head.
export const kPrimary = [cellOf(4, 1), cellOf(4, 4), cellOf(1, 1)];
// Beside the plan: lower rates for four query heads on one KV head, and a KV head of width 8 alone.
export const kLowRates = [2.5e-4, 1.25e-4], kNarrow = { heads: 4, kv: 1, width: 8 };
// Beside the plan: one KV head and four, at rates of their own with fewer directions, too.
export const kOwnRates = [4, 8].map((heads) => [cellOf(heads, 1), cellOf(heads, 4)]);
const kComparisons = [["G = 1 against 4, at H = 4", cellOf(4, 1), cellOf(4, 4)],
  ["H = 1 against 4, at G = 1", cellOf(1, 1), cellOf(4, 1)]];
// Questions of a direction in a step of 32 lines, by directions: counted in 51,200 lines.
const kQuestions = { 0: 160, 1: 72.9, 3: 51.9, 6: 26.7 };
const kTasks = [1, 3, 6, 0], kSide = 5, kCap = 6000;
export const taskText = (task) => task ? `${task} direction${task > 1 ? "s" : ""}` : "squares";

const isOf = (cell) => (run) =>
  run.heads === cell.heads && run.kv === cell.kv && run.width === cell.width;
const stepsOf = (run) => run.learned ?? run.cap;
const cellText = ({ heads, kv, width }) => `${heads} on ${kv} of ${width}`;

// The rate with the fewest steps over the tuning seeds; among equals the one of the least loss.
export function bestRate(runs, task, cell) {
  const tried = new Map();
  for (const run of runs) {
    if (run.task !== task || !kTuningSeeds.includes(run.seed) || !isOf(cell)(run)) continue;
    const sum = tried.get(run.lr) ?? { lr: run.lr, count: 0, steps: 0, loss: 0 };
    ++sum.count;
    sum.steps += stepsOf(run);
    sum.loss += run.loss ?? Infinity;
    tried.set(run.lr, sum);
  }
  return [...tried.values()].filter(({ count }) => count === kTuningSeeds.length)
    .sort((a, b) => a.steps - b.steps || a.loss - b.loss)[0]?.lr;
}

// Runs of the fresh seeds of a cell, by seed: at the cell's own rate if it has one.
function fresh(runs, cell, { task = 6, side = kSide, extra = "", cap = kCap, lr,
  tunedAt = task && 6 } = {}) {
  lr ??= bestRate(runs, tunedAt, cell);
  return runs.filter((run) => isOf(cell)(run) && kSeeds.includes(run.seed) && run.task === task &&
    run.side === side && run.extra === extra && run.cap === cap && (!lr || run.lr === lr))
    .sort((a, b) => a.seed - b.seed);
}

export function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length / 2;
  return (sorted[Math.floor(half)] + sorted[Math.ceil(half) - 1]) / 2;
}
const steps = (value, cap) => `${value >= cap ? "> " : ""}${numberText(value)}`;
// "725 (600 to > 6,000)": median, least and most; with the number of runs if some are missing.
function stepsText(runs, which = "learned") {
  if (!runs.length) return "";
  const cap = runs[0].cap, all = runs.map((run) => run[which] ?? cap);
  const late = runs.filter((run) => run[which] === null).length;
  return `${steps(medianOf(all), cap)} (${steps(Math.min(...all), cap)} to ${
    steps(Math.max(...all), cap)})${late ? `, ${late} censored` : ""}` +
    (runs.length < kSeeds.length ? `; ${runs.length} of ${kSeeds.length} runs` : "");
}

// One-sided sign test: probability of `count` or more of `all` if both sides are equally likely.
export function signTest(count, all) {
  let term = 2 ** -all, sum = 0;
  for (let k = 0; k <= all; ++k) {
    if (k >= count) sum += term;
    term *= (all - k) / (k + 1);
  }
  return sum;
}

// Ratios of the steps of the first cell to those of the second, seed by seed: median, least, most.
// That of a censored run may lie anywhere beyond it, of two it is 1; a figure that this may move is
// printed as a bound.
function compared(runs, first, second, text) {
  const others = fresh(runs, second, text);
  const ratios = fresh(runs, first, text).flatMap((run) => {
    const other = others.find(({ seed }) => seed === run.seed);
    if (!other) return [];
    const value = stepsOf(run) / stepsOf(other), late = run.learned === null;
    const alike = late === (other.learned === null);
    return [{ value, low: alike || late ? value : 0,
      high: alike || !late ? value : Number.MAX_VALUE }];
  });
  const figure = (of) => {
    const [value, low, high] =
      ["value", "low", "high"].map((name) => of(ratios.map((each) => each[name])));
    const bound = high > value ? "> " : low < value ? "< " : "";
    return { value, text: bound + numberText(value, 2) };
  };
  const later = ratios.filter(({ value }) => value > 1).length, all = ratios.length;
  return { later, all, p: signTest(later, all), ratio: figure(medianOf),
    smallest: figure((values) => Math.min(...values)),
    greatest: figure((values) => Math.max(...values)) };
}

// The primary comparisons, corrected by Holm, and the same ones at other texts and scales.
export function comparisonTable(runs) {
  const texts = [[6, ", primary"], [0], [3], [1], [6, ", ", "--score-scale 1"],
    [6, ", ", "--qk-norm on"], [6, ", ", "--decay cosine --min-lr 1e-5"]];
  const rows = texts.flatMap(([task, which = "", extra = ""]) => {
    const all = kComparisons.map(([name, ...cells]) =>
      ({ name, ...compared(runs, ...cells, { task, extra }) })).filter(({ all: pairs }) => pairs);
    const least = Math.min(...all.map(({ p }) => p));
    return all.map(({ name, later, all: pairs, p, ratio, smallest, greatest }) => {
      const whole = pairs === kSeeds.length;
      const passes = least <= 0.05 / 2 && p <= (p === least ? 0.05 / 2 : 0.05);
      return [name, taskText(task) + which + (extra && `\`${extra}\``),
        `${later} of ${pairs}${whole ? "" : ", incomplete"}`, whole ? numberText(p, 3) : "",
        `${ratio.text} (${smallest.text} to ${greatest.text})`,
        !whole ? "" : passes && ratio.value >= 1.25 ? "matters" : "not shown"];
    });
  });
  return markdown(["comparison", "text", "later in", "p", "ratio of steps: median", "verdict"],
    rows);
}

// Steps to learn of all cells and texts.
export const cellTable = (runs) => markdown(
  ["query heads on KV heads", "rates: lines, squares", ...kTasks.map(taskText)],
  kCells.map((cell) => [cell, ...kTasks.map((task) => fresh(runs, cell, { task }))])
    .filter(([, ...all]) => all.flat().length).map(([cell, ...all]) => [cellText(cell),
      [6, 0].map((task) => bestRate(runs, task, cell) ?? "–").join(", "),
      ...all.map((each) => stepsText(each))]));

// One KV head against four with fewer directions, at rates tuned there.
export const ownRatesTable = (runs) => markdown(["query heads", "text", "rates",
  "steps on one KV head", "on four", "later in", "ratio of steps: median"],
[1, 3].flatMap((task) => kOwnRates.flatMap((pair) => {
  const about = { task, tunedAt: task }, { later, all, ratio } = compared(runs, ...pair, about);
  return all ? [[`${pair[0].heads}`, taskText(task),
    pair.map((cell) => bestRate(runs, task, cell)).join(", "),
    ...pair.map((cell) => stepsText(fresh(runs, cell, about))), `${later} of ${all}`,
    ratio.text]] : [];
})));

// Thousands of questions in each direction until it is learned, and the ratio of six directions to
// three: medians.
export const exposureTable = (runs) => markdown(
  ["query heads on KV heads", ...kTasks.map(taskText), "six over three"],
  kCells.flatMap((cell) => {
    const of = (task) => {
      const all = fresh(runs, cell, { task });
      return all.length ? medianOf(all.map(stepsOf)) * kQuestions[task] / 1000 : NaN;
    };
    const isCensored = (task) => of(task) >= kCap * kQuestions[task] / 1000;
    return kTasks.some((task) => of(task)) ? [[cellText(cell), ...kTasks.map((task) =>
      `${isCensored(task) ? "> " : ""}${numberText(of(task))}`),
    isCensored(6) || isCensored(3) ? "" : numberText(of(6) / of(3), 2)]] : [];
  }));

// Share right in the worst direction when runs ended, median.
const worstText = (runs) =>
  `${numberText(100 * medianOf(runs.map((run) => Math.min(...run.directions))), 1)} %`;

// What runs at six directions and at squares had learned when they ended.
export const endTable = (runs) => markdown(["query heads on KV heads", "text",
  "steps to 95 % of all answers", "right at the end", "in the worst direction"],
kCells.flatMap((cell) => [6, 0].flatMap((task) => {
  const all = fresh(runs, cell, { task });
  return all.length ? [[cellText(cell), taskText(task), stepsText(all, "most"),
    `${numberText(100 * medianOf(all.map((run) => run.answers)), 1)} %`,
    task ? worstText(all) : ""]] : [];
})));

// Right answers by direction of the first seed's trained models of which one query head is zeroed.
export const headTable = (runs) => markdown(
  ["query heads on KV heads", "zeroed", ...[1, 2, 3, 4, 5, 6].map((n) => `direction ${n}`)],
  runs.filter((run) => run.zeroed !== undefined && run.seed === 1).map((run) =>
    [cellText(run), run.zeroed === null ? "none" : `head ${run.zeroed + 1}`,
      ...run.directions.map((share) => `${numberText(100 * share)} %`)]));

// Scores of another scale, rates that fall, larger boards, and runs of 20,000 steps.
export function controlTable(runs) {
  const one = cellOf(1, 1);
  const scales = ["", "--score-scale 1", "--score-scale 0.354", "--score-scale 0.177",
    "--qk-norm on", "--decay cosine --min-lr 1e-5"].flatMap((extra) =>
    [one, ...kPrimary.slice(0, 2)].map((cell) =>
      [cellText(cell), extra ? `\`${extra}\`` : "as above", fresh(runs, cell, { extra })]));
  const boards = [5, 7, 11].flatMap((side) => [2, 4, 8].map((width) => {
    const cell = { heads: 4, kv: 4, width };
    return [cellText(cell), `side ${side}, 1 direction`, fresh(runs, cell, { task: 1, side })];
  }));
  const low = kLowRates.map((lr) =>
    [cellText(kPrimary[0]), `rate ${lr}`, fresh(runs, kPrimary[0], { lr })]);
  return markdown(
    ["query heads on KV heads", "changed", "steps to learn", "right in the worst direction"],
    [...scales, ...low, [cellText(kNarrow), "a quarter of the bytes", fresh(runs, kNarrow)],
      ...[[one], [kPrimary[0], kLowRates[0]], [cellOf(8, 1)]].map(([cell, lr]) =>
        [cellText(cell), `at most 20,000 steps${lr ? `, rate ${lr}` : ""}`,
          fresh(runs, cell, { cap: 20000, lr })]), ...boards]
      .filter(([, , all]) => all.length).map(([cell, changed, all]) =>
        [cell, changed, stepsText(all), worstText(all)]));
}
