// The charts of a comparison, from its results.json. Each is {title, caption, svg}, or null where
// the results do not suffice for it.
import { cachesPicture } from "./cache_picture.js";
import { bytesText, listText, mean, numberText, percentText, signedText, withInterval } from "./format.js";
import { chart, forest } from "./plot.js";
import { pooledHalves } from "./statistics.js";

const kLongContext = 131072; // tokens, of the second picture of caches
const kMostBands = 5; // more bands would hide each other
const kWideWidth = 640; // of a picture with a column of words

const finished = (r) => r.variants.filter((v) => v.runs.length > 0);
// Kept results have earlier words.
export const verdictWord = (v) => v.verdict === "open" ? "undecided"
  : v.verdict === "later" && v.cost_median === null ? "not learned" : v.verdict ?? "";
export const byAnswers = (r) => r.verdict.metric === "answers";
const bySteps = (r) => r.verdict.metric === "steps";
export const unitOf = (r) => r.only_answers ? "nats per answer" : "nats per character";
// The axis begins at 0 unless the caches differ by so much that small ones would meet there.
const kWide = 16;
function cacheAxis(r) {
  const bytes = finished(r).map((v) => v.kv_cache_bytes_per_token);
  const wide = Math.max(...bytes) > kWide * Math.min(...bytes);
  return { xTitle: `KV cache per token at ${numberText(r.context)} tokens`,
    x: { ...(wide ? { log: 2 } : { from: 0 }), label: bytesText } };
}
const doubling = { log: 2, label: (value) => numberText(value) };

// A chart; null where there is nothing to draw.
function made(about) {
  const { rows, series, title, caption } = about;
  if (!(rows ?? series.flatMap(({ points }) => points)).length) return null;
  return { title, caption, svg: rows ? forest(about) : chart(about) };
}

// Series of the attentions that finished runs; `pointsOf` makes the points of one.
const seriesOf = (r, pointsOf) => finished(r).map((v) =>
  ({ name: v.spec, style: r.variants.indexOf(v), points: pointsOf(v) }));

// Point of the mean of `values` over seeds, from the least to the most of them.
const spread = (x, values, hover) => ({ x, y: mean(values), hover,
  ...(values.length > 1 ? { low: Math.min(...values), high: Math.max(...values) } : {}) });

// Points of values of all seeds, [x, value]; `hover(x, mean)` says one.
function overSeeds(pairs, hover) {
  const values = new Map();
  for (const [x, value] of pairs) values.set(x, [...values.get(x) ?? [], value]);
  return [...values].map(([x, all]) => spread(x, all, hover(x, mean(all))));
}

// Series without bands where there are too many, and a sentence about them.
function thinned(series) {
  const many = series.filter(({ points }) => points.length).length > kMostBands;
  const banded = series.some(({ points }) => points.some((p) => p.low !== undefined));
  if (many) for (const { points } of series) for (const p of points) delete p.low;
  return !banded ? "One seed each." : many ? "Means over seeds; their spread is not drawn, since " +
    "that many bands would hide each other." : "Means over seeds; bands reach from the least to " +
    "the most of the seeds.";
}

// Axis of losses: logarithmic if they differ by much.
export function lossAxis(series) {
  const values = series.flatMap(({ points }) => points.map((p) => p.y)).filter(Number.isFinite);
  const least = Math.min(...values);
  return least > 0 && Math.max(...values) > 3 * least ? { log: 10 } : {};
}

const poolOf = (r) => `all losses${r.verdict.controls?.length ? " but those of controls" : ""}`;

// Costs of losses by the bytes of caches, least first, with intervals of the pooled variance.
// Attentions that cost more than `most` are named in the caption.
export function costsOfLosses(r, most = Infinity, controls = r.verdict.controls ?? []) {
  const than = r.variants.find((v) => v.spec === r.verdict.reference), halves = pooledHalves(r);
  const share = (v) => v.kv_cache_bytes_per_token / than.kv_cache_bytes_per_token;
  const rows = r.variants.filter((v) => Number.isFinite(v.paired_difference_mean ?? NaN))
    .sort((a, b) => share(a) - share(b)).map((v) => {
      const cost = v.paired_difference_mean, { each, all } = halves(v.costs.length);
      const isControl = controls.includes(v.spec);
      return { name: v.spec, word: `${percentText(share(v))}${isControl ? " !" : ""}`,
        style: isControl ? 2 : 1, mean: cost, low: cost - each, high: cost + each,
        outer: Number.isFinite(all) ? [cost - all, cost + all] : undefined,
        hover: withInterval(`${v.spec}: ${signedText(cost, 4)}`, each, 4) };
    });
  const beyond = rows.filter(({ mean: cost }) => cost > most).map(({ name, mean: cost }) =>
    ` ${name} is at ${signedText(cost, 3)}, beyond the picture.`).join("");
  const limit = r.verdict.tolerance;
  const title = `Loss minus ${than.spec}, by bytes of KV cache`;
  const caption = `Percentages are bytes of ${than.spec}'s cache. ` +
    (Number.isFinite(rows[0]?.low) ? "Thick bars are 95\u00a0% intervals of one attention, thin " +
      `bars hold for all at once; one variance for all is pooled from ${poolOf(r)}.`
      : "One seed each, so there are no intervals.") +
    (limit === null ? "" : ` The band reaches to the tolerance, ${numberText(limit, 4)}.`) +
    (controls.length
      ? " An exclamation mark is a control, too small for the text on purpose." : "") + beyond;
  return made({ title, caption, rows, most,
    xTitle: `loss minus ${than.spec}, ${unitOf(r)}`, tolerance: limit ?? NaN,
    edges: ["within ←", "→ beyond"], width: kWideWidth });
}

// Costs in answers or steps: medians, and a dot for each seed.
function costsBySeeds(r) {
  const than = r.verdict.reference, steps = bySteps(r), decimals = steps ? 0 : 1;
  const rows = r.variants.flatMap((v, style) => {
    const middle = v.cost_median;
    if (middle === null || middle === undefined) return [];
    return [{ name: v.spec, word: verdictWord(v), style, mean: middle,
      hover: `${v.spec}: ${signedText(middle, decimals)}`, dots: v.costs.map(({ seed, cost }) =>
        ({ value: cost, hover: `${v.spec}, seed ${seed}: ${signedText(cost, decimals)}` })) }];
  });
  const limit = r.verdict.tolerance === null ? ""
    : ` of ${numberText(r.verdict.tolerance, decimals)}${steps ? "\u00a0%" : " points"}`;
  const caption = "Dots are single seeds, marks their medians. The shaded band ends at the " +
    `tolerance${limit}; verdicts count the seeds in it (sign test).` +
    (steps ? " Runs that did not learn have no dot." : "");
  return made({ rows, caption, tolerance: r.verdict.tolerance ?? NaN,
    title: `${steps ? "Steps to learn" : "Answers lost"} compared with ${than}`,
    edges: ["enough ←", steps ? "→ later" : "→ not enough"],
    xTitle: steps ? `more steps than ${than}, %` : "answers lost, percentage points" });
}

const differences = (r) => bySteps(r) || byAnswers(r) ? costsBySeeds(r) : costsOfLosses(r);

// Level at the steps that runs had, for what did not learn in them.
export const notLearned = (steps) =>
  ({ y: steps, name: `not learned in ${numberText(steps)} steps` });

export function stepsAgainstCache(r) {
  const caches = new Set(r.variants.map((v) => v.kv_cache_bytes_per_token));
  if (!bySteps(r) || caches.size < 2) return null; // equal caches: no axis
  const late = [], never = [], level = notLearned(r.steps);
  const series = seriesOf(r, (v) => {
    // A run that did not learn has taken all the steps that it had.
    const steps = v.runs.map(({ learned_at: at }) => at ?? r.steps);
    const bytes = v.kv_cache_bytes_per_token, middle = v.steps_to_learn_median ?? r.steps;
    const learned = v.runs.filter(({ learned_at: at }) => at).length;
    if (learned < v.runs.length) (learned ? late : never).push(v.spec);
    const hover = `${v.spec}: ${middle < r.steps ? `${numberText(middle)} steps` : level.name}, ${
      bytesText(bytes)} a token`;
    return steps.length ? [{ ...spread(bytes, steps, hover), y: middle }] : [];
  });
  return made({ series, levels: late.length + never.length ? [level] : [],
    title: "Steps to learn against KV cache",
    caption: `Training steps until ${learnedText(r)}. Lower and further left is better. ` +
      "Points are medians over seeds, bars go from the least to the most of them." +
      (never.length ? ` No seed of ${listText(never)} learned in ${numberText(r.steps)} steps.`
        : "") + (late.length ? ` Not all seeds of ${listText(late)} did.` : ""),
    ...cacheAxis(r), yTitle: "steps to learn", y: { from: 0 } });
}

const learnedText = ({ config, data }) => config["stop-at-loss"] > 0
  ? `the validation loss is below ${config["stop-at-loss"]}`
  : `${config["stop-at-answers"] ?? 95} % of the answers` +
    `${data === "lookup" ? " in each direction" : ""} are right`;

// Evaluations on the way. A run that has ended keeps its last value while other seeds train on.
function learningCurves(r) {
  const evaluationsOf = (v) => v.runs.flatMap(({ evaluations: all }) => all ? [all] : []);
  const answers = finished(r).some((v) => evaluationsOf(v).flat().some((at) => "answers" in at));
  const series = seriesOf(r, (v) => {
    const valueAt = (evaluations, step) => {
      const at = evaluations.findLast((each) => each.step <= step);
      return !at ? NaN : answers ? 100 * at.answers : at.loss;
    };
    const steps = new Set(evaluationsOf(v).flat().map(({ step }) => step));
    return overSeeds([...steps].sort((a, b) => a - b).flatMap((step) =>
      evaluationsOf(v).map((each) => [step, valueAt(each, step)])), (step, value) =>
      `${v.spec}, step ${numberText(step)}: ${numberText(value, answers ? 1 : 4)}`);
  });
  if (!series.some(({ points }) => points.length > 1)) return null;
  const { levels, sentence } = answers ? baselineOf(r) : { levels: [], sentence: "" };
  const learned = r.config["stop-at-answers"] ?? 0;
  if (answers && learned > 0) levels.push({ y: learned, name: `learned ${learned} %` });
  return made({ kind: "lines", marks: 1, series, levels,
    title: answers ? "Right answers while learning" : "Validation loss while learning",
    caption: `${thinned(series)}${bySteps(r) ? " Runs that have learned keep their last value."
      : ""}${sentence}${answers && learned > 0
      ? ` A run has learned at ${learned}\u00a0%${r.data === "lookup"
        ? " in its worst direction; lines are means of all directions" : ""}.` : ""}`,
    xTitle: "step", x: { from: 0 },
    ...(answers ? answersAxis : { yTitle: `loss, ${unitOf(r)}`, y: { from: 0 } }) });
}

// The lower left corner of points {x, y}: what no other point beats in both.
function paretoFront(points) {
  let least = Infinity;
  return points.filter((p) => Number.isFinite(p.y)).sort((a, b) => a.x - b.x || a.y - b.y)
    .filter((p) => p.y < least && ((least = p.y), true)).map((p) => [p.x, p.y]);
}

function lossAgainstCache(r) {
  const series = seriesOf(r, (v) => {
    const half = v.val_loss_ci95 ?? NaN, y = v.val_loss_mean, x = v.kv_cache_bytes_per_token;
    return [{ x, y, low: y - half, high: y + half, hover: `${v.spec}: loss ` +
      `${withInterval(numberText(y, 4), half, 4)}, ${bytesText(x)} a token` }];
  });
  const floor = r.entropy_per_character;
  const overfit = finished(r).filter((v) => v.may_overfit).map((v) => v.spec);
  return made({ series, title: "Validation loss against KV cache",
    caption: (overfit.length
      ? `Losses at the end, where ${listText(overfit)} may overfit: they say little of caches. `
      : "Lower and further left is better. The grey steps are the Pareto front of the means: " +
        "what no other attention here beats in both. ") +
      (r.common_seeds.length === 1 || r.seeds.length === 1
        ? "One seed each, so there are no intervals."
        : "Points are means over seeds, bars 95\u00a0% intervals (Student t).") +
      (floor ? " The floor is the text's entropy, the least loss that any model can reach." : ""),
    ...cacheAxis(r), yTitle: `loss, ${unitOf(r)}`,
    front: overfit.length ? [] : paretoFront(series.flatMap(({ points }) => points)),
    levels: floor ? [{ y: floor, name: `floor ${numberText(floor, 4)}` }] : [] });
}

const kBaselines = { guesser: "guessing", copier: "commonest answer so far",
  commonest: "commonest value shown" };

// Baselines that look nothing up: a level at the best of them, and a sentence.
function baselineOf(r) {
  const all = Object.entries(r.answer_baselines ?? {}).filter(([, share]) =>
    Number.isFinite(share));
  if (!all.length) return { levels: [], sentence: "" };
  const best = 100 * Math.max(...all.map(([, share]) => share));
  return { levels: [{ y: best, name: `best guess ${numberText(best, 1)} %` }],
    sentence: ` Right without reading the question: ${all.map(([name, share]) =>
      `${kBaselines[name] ?? name} ${numberText(100 * share, 1)}\u00a0%`).join(", ")}.` };
}
// With room for the name of a level near 100 %.
export const answersAxis = { yTitle: "answers right, %", y: { from: 0, most: 105 } };

function answersAgainstCache(r) {
  const series = seriesOf(r, (v) => {
    const shares = v.runs.flatMap(({ answer_accuracy: share }) => share ?? []);
    if (!shares.length) return [];
    const x = v.kv_cache_bytes_per_token, y = 100 * v.answer_accuracy_mean;
    const text = withInterval(numberText(y, 1), 100 * v.answer_accuracy_ci95, 1);
    return [{ ...spread(x, shares.map((share) => 100 * share),
      `${v.spec}: ${text} % right, ${bytesText(x)} a token`), y }];
  });
  const { levels, sentence } = baselineOf(r);
  return made({ series, levels, title: "Right answers against KV cache",
    caption: "Share of the answers that the model predicts right. An answer is a character that " +
      "only earlier text determines. Higher and further left is better. Points are means over " +
      "the seeds that all attentions finished, bars go from the least to the most of all seeds " +
      `of an attention.${sentence}`, ...cacheAxis(r), ...answersAxis });
}

function caches(r) {
  const variants = r.variants.filter((v) => v.cache?.length).flatMap((v) => [v,
    ...(v.rounded ?? []).map((rounded) =>
      ({ spec: `${v.spec} ${rounded.cache}`, cache: rounded.layers }))]);
  if (!variants.length) return null;
  const title = "The cache of each attention";
  const caption = "KV cache of one sequence, to scale. Layers stand side by side. The width of a " +
    "layer is the bits that it stores per token, with a border between heads; the height is the " +
    "tokens that it stores, in a frame as high as all tokens. On the right, the height of " +
    `${numberText(r.context)} tokens stands for ${numberText(kLongContext)}.`;
  return { title, caption,
    svg: cachesPicture(variants, { title, caption, contexts: [r.context, kLongContext] }) };
}

// Steps from which on training losses are drawn: the first ones would flatten the others. A run
// that has just begun is drawn whole.
export const firstDrawn = (steps) => steps.length < 20 ? 0 : steps.at(-1) / 10;
export const leftOut = (first) => first > 0 ? ` Steps before ${numberText(first)} are left out.`
  : "";

function trainingLoss(r) {
  const curvesOf = (v) => v.runs.filter(({ curve_steps: steps }) => steps?.length);
  const first = Math.max(0, ...finished(r).flatMap((v) => curvesOf(v).map((run) =>
    firstDrawn(run.curve_steps))));
  const series = seriesOf(r, (v) => {
    const pairs = curvesOf(v).flatMap(({ curve_steps: steps, curve_losses: losses }) =>
      steps.map((step, i) => [step, losses[i]])).filter(([step]) => step >= first);
    const ofAll = (step) => curvesOf(v).every((run) => run.curve_steps.includes(step));
    return overSeeds(pairs.filter(([step]) => ofAll(step)), (step, loss) =>
      `${v.spec}, step ${numberText(step)}: loss ${numberText(loss, 4)}`);
  });
  return made({ kind: "lines", series, title: "Training loss",
    caption: thinned(series) + leftOut(first) +
      (bySteps(r) ? " Lines are drawn as long as all runs train." : ""),
    xTitle: "step", yTitle: `loss, ${unitOf(r)}`, y: lossAxis(series) });
}

// Loss of every attention minus the reference's by position, paired by seed.
function lossByPosition(r) {
  const than = r.variants.find((v) => v.spec === r.verdict.reference);
  const endOf = (from) => Math.min(r.context, from === 0 ? 32 : 2 * from);
  const series = seriesOf(r, (v) => overSeeds(v.runs.flatMap(({ seed, loss_by_position: all }) => {
    const same = than?.runs.find((run) => run.seed === seed)?.loss_by_position;
    return (all ?? []).flatMap(({ from, loss }) => {
      const other = same?.find((each) => each.from === from);
      return other ? [[from, loss - other.loss]] : [];
    });
  }), (from, cost) => `${v.spec}, positions ${numberText(from)} to ` +
    `${numberText(endOf(from) - 1)}: ${signedText(cost, 4)}`)
    .map((point) => ({ ...point, x: endOf(point.x) })));
  if (!series.some(({ points }) => points.length > 1)) return null;
  return made({ kind: "lines", series,
    title: `Loss by position, compared with ${than.spec}`,
    caption: "Loss minus the reference's of the characters at positions up to that of the point " +
      "and above the point before. Where a line rises, less cache costs more the more text lies " +
      `behind. ${thinned(series)}`, x: doubling, xTitle: "position in the context, up to",
    yTitle: `loss minus ${than.spec}, ${unitOf(r)}` });
}

const kLeastAsked = 20; // questions of a run: the share of fewer is noise

function answersAgainstDistance(r) {
  const isAsked = ({ asked }) => asked >= kLeastAsked;
  const series = seriesOf(r, (v) => overSeeds(v.runs.flatMap((run) =>
    (run.answers_by_distance ?? []).filter(isAsked))
    .map(({ from, asked, right }) => [from, 100 * right / asked]), (from, share) =>
    `${v.spec}, ${numberText(from)} to ${numberText(2 * from - 1)} characters back: ` +
      `${numberText(share, 1)} % right`).sort((a, b) => a.x - b.x));
  const asked = new Map((r.variants.flatMap((v) => v.runs)
    .find((run) => run.answers_by_distance)?.answers_by_distance ?? []).filter(isAsked)
    .map((at) => [at.from, at.asked]));
  const counts = [...asked].map(([from, count]) => `${numberText(count)} at ${numberText(from)}`);
  const { levels, sentence } = baselineOf(r);
  return made({ kind: "lines", series, levels,
    title: "Right answers against distance",
    caption: "Share of right answers by the distance back to where the answer was told. A point " +
      `stands for distances up to the next point. Questions of a run: ${listText(counts)}, ` +
      `where they are ${kLeastAsked} or more. ` +
      `${thinned(series)}${sentence}`, x: doubling,
    xTitle: "distance back to where the answer was told, characters", ...answersAxis });
}

// All charts that the results suffice for; first that of the verdict and that of its question.
export function chartsOf(r) {
  const [loss, answers] = [lossAgainstCache(r), answersAgainstCache(r)];
  const first = bySteps(r) ? [stepsAgainstCache(r), learningCurves(r), differences(r)]
    : [differences(r), ...(byAnswers(r) ? [answers, loss] : [loss, answers])];
  return [...first, caches(r), ...(bySteps(r) ? [] : [learningCurves(r)]), trainingLoss(r),
    lossByPosition(r), answersAgainstDistance(r)]
    .filter((drawn) => drawn !== null);
}
