// Tables of the Markdown files, from the results.json of comparisons. Rows are arrays of cells;
// `markdown` makes lines of them.
import { cacheFigure } from "./bits.js";
import { byAnswers, verdictWord } from "./charts.js";
import { mean, numberText, signedText, withInterval } from "./format.js";
import { estimate, pooledHalves } from "./statistics.js";

export const markdown = (headings, rows) => [`| ${headings.join(" | ")} |`,
  `|${"---|".repeat(headings.length)}`, ...rows.map((cells) => `| ${cells.join(" | ")} |`)]
  .join("\n");

const code = (text) => `\`${text}\``;
const variantsOf = (r, specs) => specs ? specs.map((spec) => variant(r, spec)) : r.variants;

export function variant(r, spec) {
  const found = r.variants.find((v) => v.spec === spec);
  if (!found) throw new Error(`there is no attention ${spec} in the results of ${r.command}`);
  return found;
}

export const estimateText = ({ mean: middle, half }, text = signedText, decimals = 4) =>
  withInterval(text(middle, decimals), half, decimals);

// Differences of `of(run)`, a figure, between runs of the same seeds.
export const paired = (first, second, of) => first.runs.flatMap((run) => {
  const same = second.runs.find(({ seed }) => seed === run.seed);
  return same ? [of(run) - of(same)] : [];
});
const pairedLosses = (first, second) => paired(first, second, (run) => run.val_loss);

const bytes = (v) => numberText(v.kv_cache_bytes_per_token,
  Number.isInteger(v.kv_cache_bytes_per_token) ? 0 : 1);
const bytesHeading = (r) => `KV B/token at ${r.context}`;
const isReference = (r, v) => v.spec === r.verdict.reference;

// Losses: the interval is that of the comparison, of each attention by itself; beside it, if it was
// measured, the half width that the choice of text leaves.
export function lossTable(r, specs) {
  const than = r.verdict.reference, all = variantsOf(r, specs);
  const byText = all.some((v) => Number.isFinite(v.paired_difference_text_ci95 ?? NaN));
  const textCell = (v) => isReference(r, v) ? "" : numberText(v.paired_difference_text_ci95, 4);
  return markdown(["attention", "parameters", bytesHeading(r), "seeds", "loss", `minus ${than}`,
    ...(byText ? ["± of text"] : []), "shown to be"], all.map((v) => {
    const text = (name, show) => estimateText({ mean: v[`${name}_mean`], half: v[`${name}_ci95`] },
      show);
    const cost = v.paired_difference_mean, half = v.paired_difference_ci95 ?? Infinity;
    const shown = cost > half ? "worse" : cost < -half ? "better" : "";
    return [code(v.spec), numberText(v.params), bytes(v), v.runs.length,
      text("val_loss", numberText),
      isReference(r, v) ? "" : text("paired_difference"), ...(byText ? [textCell(v)] : []), shown];
  }));
}

// Differences of losses in stretches of the validation part, by means over the seeds of both.
const stretchDifferences = (first, second) => first.runs[0].loss_by_block.map((_, block) =>
  mean(paired(first, second, (run) => run.loss_by_block[block])));

// Losses of attentions minus those of others, with intervals of the pooled variance; beside them
// half widths of the pair's own seeds (Student's t) and, if it was measured, of the choice of text.
export function pairTable(r, pairs) {
  const halves = pooledHalves(r), byText = r.variants.every((v) => v.runs[0]?.loss_by_block);
  return markdown(["attention", "minus", "difference", "± by its seeds alone",
    ...(byText ? ["± of text"] : [])], pairs.map(([spec, than]) => {
    const pair = [variant(r, spec), variant(r, than)], costs = pairedLosses(...pair);
    return [code(spec), code(than),
      estimateText({ mean: mean(costs), half: halves(costs.length).each }),
      numberText(estimate(costs).half, 4), ...(byText
        ? [numberText(estimate(stretchDifferences(...pair)).half, 4)] : [])];
  }));
}

export function answerTable(r, specs) {
  return markdown(["attention", bytesHeading(r), "answers right %", "learned",
    "points lost: median (least to most)"], variantsOf(r, specs).map((v) => {
    const lost = v.costs.map(({ cost }) => cost);
    return [code(v.spec), bytes(v), estimateText({ mean: 100 * v.answer_accuracy_mean,
      half: 100 * v.answer_accuracy_ci95 }, numberText, 1), `${v.learned} of ${v.runs.length}`,
    isReference(r, v) || !lost.length ? "" : `${signedText(v.cost_median, 1)} ` +
      `(${signedText(Math.min(...lost), 1)} to ${signedText(Math.max(...lost), 1)})`];
  }));
}

// Steps to learn, by the median, the least and the most of the seeds, at the rate that a sweep has
// chosen. A run that did not learn takes more than all steps.
export function stepsTable(r, specs) {
  const text = (middle, values, show, most, never) => {
    const shown = (value) => Number.isFinite(value ?? Infinity) ? show(value) : most;
    const all = values.map((value) => value ?? Infinity);
    const least = Math.min(...all), greatest = Math.max(...all);
    if (!Number.isFinite(least)) return never;
    return shown(middle) + (least < greatest ? ` (${shown(least)} to ${shown(greatest)})` : "");
  };
  return markdown(["attention", bytesHeading(r), ...(r.sweep ? [r.sweep.split("=")[0]] : []),
    "steps to learn", `% more than ${r.verdict.reference} with the same seed`, "verdict"],
  variantsOf(r, specs).map((v) => [code(v.spec), bytes(v),
    ...(r.sweep ? [v.sweep.find(({ chosen }) => chosen).value] : []),
    text(v.steps_to_learn_median, v.runs.map((run) => run.learned_at), String,
      `> ${r.steps}`, `not in ${r.steps}`),
    ...(isReference(r, v) ? ["", ""] : [text(v.cost_median, v.costs.map(({ cost }) => cost),
      (cost) => signedText(cost, 0), "more", "-"), verdictWord(v)])]));
}

// Losses that `of(run)` gives, under headings: those of the reference, and what others lose more.
const lossesTable = (r, headings, of) => markdown(["attention", ...headings], r.variants.map((v) =>
  [code(v.spec), ...headings.map((_, i) => isReference(r, v)
    ? estimateText(estimate(v.runs.map((run) => of(run)[i])), numberText)
    : estimateText(estimate(paired(v, variant(r, r.verdict.reference), (run) => of(run)[i]))))]));

// By position in the context.
export const positionTable = (r) => lossesTable(r,
  r.variants[0].runs[0].loss_by_position.map(({ from }) => `from token ${from}`),
  (run) => run.loss_by_position.map(({ loss }) => loss));

// After each quarter of the steps.
export function courseTable(r) {
  const quarters = [1, 2, 3, 4].map((n) => n * r.steps / 4);
  return lossesTable(r, quarters.map((step) => `after ${step}`), ({ evaluations }) =>
    quarters.map((quarter) => evaluations.find(({ step }) => step === quarter).loss));
}

// Losses on held-out text, or steps to learn, at each value of a sweep; * marks the value taken.
export const sweepTable = (r) => markdown(["attention", ...r.variants[0].sweep.map(({ value }) =>
  `${r.sweep.split("=")[0]} ${value}`)], r.variants.map((v) => [code(v.spec), ...v.sweep.map(
  ({ loss, chosen }) => numberText(loss, r.verdict.metric === "steps" ? 0 : 4) +
    (chosen ? " *" : ""))]));

// One cache [attention, cache] minus another one; "" where a cache is missing.
function differenceText(r, one, than, by) {
  const [first, second] = [one, than].map(([spec, name]) => ({ runs: variant(r, spec).runs.map(
    (run) => ({ seed: run.seed, value: cacheFigure(r, run, name, by) })) }));
  const known = paired(first, second, ({ value }) => value).filter(Number.isFinite);
  const decimals = by !== "kl" && byAnswers(r) ? 1 : 4;
  return known.length ? estimateText(estimate(known), signedText, decimals) : "";
}

// What rounding costs each attention: its runs through `caches` minus themselves unrounded.
export const roundingTable = (r, caches, by) => markdown(
  [by === "kl" ? "KL divergence, nats" : "attention", ...caches], r.variants
    .filter(({ rounded }) => rounded?.length).map(({ spec }) => [`\`${spec}\``,
      ...caches.map((name) => differenceText(r, [spec, name], [spec, "f32"], by))]));

// KL divergences of one attention through caches minus those of others.
export const divergenceTable = (r, spec, others, caches) => markdown(
  ["KL divergence, nats", ...caches], others.map((other) => [`\`${spec}\` minus \`${other}\``,
    ...caches.map((name) => differenceText(r, [spec, name], [other, name], "kl"))]));

// Caches of about equal bytes: pairs of [attention, cache], each minus the second.
export const equalBytesTable = (r, pairs) => markdown(["cache", "KV B/token", "minus",
  "KV B/token", "difference"], pairs.map(([one, two]) => [
  ...[one, two].flatMap(([spec, name]) => [`\`${spec}\` in ${name}`,
    numberText(variant(r, spec).rounded.find(({ cache }) => cache === name)
      .kv_cache_bytes_per_token)]),
  differenceText(r, one, two)]));

// Command of a comparison without the flags that change no result.
const commandOf = (r) => r.command.replace(
  / --(out|jobs|threads|progress|checkpoint-every) \S+/g, "");

// Section of a page of results: question, command and tables.
export const studySection = ({ file, question, tables, answer }, r) => [`## ${question}`,
  ...(answer ? [answer] : []),
  `[${file}](${file}); ${numberText(r.machine_hours, 1)} hours on ${r.machine.split(",")[0]}.`,
  "```sh\n" + commandOf(r) + "\n```", ...tables.map((table) => table(r))].join("\n\n");
