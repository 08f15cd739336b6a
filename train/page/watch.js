// The third section: training as it goes on, in numbers and charts.
import { bytesText, durationText, mean, numberText, percentText, plural } from "../view/format.js";
import { chart } from "../view/plot.js";
import { markBefore } from "./controls.js";
import { beforePaint, byId, h, on, setText, Views } from "./dom.js";
import { courseOf, guessOf, lossWarning } from "./overfit.js";
import { planningEngine } from "./planning.js";
import { isBusy, kMostSeeds, state } from "./state.js";
import { marksLearned, secondsLeft } from "./training.js";

const kTallChart = 340, kLowChart = 250; // heights, CSS pixels
const kBesideTwo = 535; // height of the chart that stands beside the two others
const wide = matchMedia("(min-width: 56rem)"); // as in parts.css
const kFirstShown = 0.02; // share of the steps from which on losses are drawn
const rows = new Views(byId("runs"), (run) => new Row(run));

const hasAnswers = (run) => run.plan.baselines && run.plan.baselines.guesser !== undefined;
// A level line at the loss of a uniform guess.
function guessLevels() {
  const y = guessOf(state.runs);
  return Number.isFinite(y) ? [{ y, name: `uniform guess ${numberText(y, 2)}` }] : [];
}
const baselinesOf = (run) => Object.entries(hasAnswers(run) ? run.plan.baselines : {})
  .filter(([, share]) => Number.isFinite(share))
  .map(([name, share]) => ({ name: `${name} ${percentText(share)}`, y: 100 * share }));

// What is compared: "steps" to learn, right "answers" or "loss".
export const measureOf = (runs) => !runs.length || !runs.every(hasAnswers) ? "loss"
  : runs.every(marksLearned) ? "steps" : "answers";

// Steps to learn (those so far, until then), percent of right answers, or loss. The newest value of
// each seed that did not diverge.
export function scoresOf(run, measure) {
  return run.records.filter(({ diverged, checks }) => !diverged && checks.length)
    .map(({ checks, step, learned }) => measure === "steps" ? learned || step
      : measure === "answers" ? 100 * checks.at(-1).answers : checks.at(-1).loss)
    .filter(Number.isFinite);
}

// Returns true if no training of those that end when they have learned did.
const neverLearned = (run) => run.isTrained && marksLearned(run) &&
  run.records.every(({ checks, learned }) => checks.length > 0 && !learned);

class Row {
  constructor(run) {
    this.run = run;
    this.bar = h("progress", { max: 1, value: 0, "aria-label": `training of ${run.spec}` });
    this.cells = Object.fromEntries(
      ["loss", "answers", "step"].map((name) => [name, h("td", { class: name })]));
    this.step = h("span", {});
    this.rate = h("span", { class: "rate" });
    this.cells.step.append(this.bar, this.step, this.rate);
    this.element = h("tr", {}, h("th", { scope: "row" }, markBefore(run.style), run.spec),
      h("td", {}, bytesText(run.plan.cache.bytes_per_token)), Object.values(this.cells));
  }
  update(answered) {
    const { run } = this, { record } = run, losses = scoresOf(run, "loss");
    setText(this.cells.loss, numberText(mean(losses), 3));
    this.cells.answers.hidden = !answered;
    if (answered) {
      const values = scoresOf(run, "answers");
      setText(this.cells.answers, values.length ? percentText(mean(values) / 100) : "–");
    }
    this.bar.hidden = !run.settings;
    this.bar.value = run.isTrained ? 1
      : run.settings ? run.taken / (run.steps * state.seeds) : 0;
    const lost = run.divergedText;
    this.cells.step.classList.toggle("error", run.error !== "" || lost !== "");
    let text = run.settings ? `${numberText(record?.step ?? 0)} of ${numberText(run.steps)}`
      : record?.step ? `step ${numberText(record.step)}` : "opened";
    if (record?.learned) text = `learned in ${numberText(record.learned)}`;
    else if (neverLearned(run)) text = `not learned in ${numberText(record.step)}`;
    if (state.seeds > 1 && record) text += `, seed ${record.seed}`;
    if (lost) text += `; ${lost}`;
    setText(this.step, run.error || text);
    setText(this.rate, run.tokensPerSecond && !run.error
      ? ` · ${numberText(run.tokensPerSecond)} tokens/s` : "");
  }
}

const percentAxis = { range: [0, 103], span: 100, label: (value) => `${numberText(value)}\u00a0%` };

// Replaces the picture in a place, if it is wide enough to be seen, by a chart. Before its first
// point a chart is an empty place in a training, and none beside opened models.
function drawInto(id, height, drawn) {
  const host = byId(id), begun = drawn?.series.some(({ points }) =>
    points.some(({ y }) => Number.isFinite(y)));
  host.hidden = !drawn || !begun && !isBusy();
  if (host.hidden || host.clientWidth < 100) return;
  host.innerHTML = begun ? chart({ ...drawn, width: host.clientWidth, height }) : "";
}

// How the chart of caches shows each measure.
const shownMeasures = {
  steps: { what: "Steps to learn", title: "Steps to learn against KV cache (lower is better)",
    text: (value) => plural(value, "step"), y: { from: 0 } },
  answers: { what: "Right answers", title: "Right answers against KV cache",
    text: (value) => percentText(value / 100), y: percentAxis },
  loss: { what: "Validation loss", title: "Loss against KV cache (lower is better)",
    text: (value) => numberText(value, 3), y: {} },
};

function drawCacheChart(measure) {
  const { what, title, text, y: axis } = shownMeasures[measure], answered = measure === "answers";
  const series = state.runs.filter((run) => run.plan.cache.bytes_per_token > 0).map((run) => {
    const values = scoresOf(run, measure), y = mean(values), x = run.plan.cache.bytes_per_token;
    const trail = answered ? (run.record?.checks ?? []).map((check) => 100 * check.answers) : [];
    const hover = `${run.spec}: ${text(y)}, ${bytesText(x)} per token`;
    const name = measure === "steps" && neverLearned(run) ? `${run.spec}, not learned` : run.spec;
    return { name, style: run.style, dots: values.length > 1 ? values : [],
      points: [{ x, y, hover, low: Math.min(...trail, y), high: Math.max(...trail, y) }] };
  });
  if (!series.length) {
    drawInto("cache-chart", 0, null);
    return;
  }
  const shown = series.map(({ points: [point] }) => point.hover).join("; ");
  drawInto("cache-chart", wide.matches ? kBesideTwo : kTallChart, {
    title, label: `${what} against KV cache per token. ${shown}`, series,
    xTitle: "KV cache per token", x: { log: 2, label: bytesText }, y: axis,
    levels: answered ? baselinesOf(state.runs[0]) : measure === "loss" ? guessLevels() : [] });
}

function drawCurves(answered) {
  const allSteps = state.runs.map((run) => run.isTrained
    ? Math.max(...run.records.map(({ step }) => step)) : run.steps);
  const most = Math.max(...allSteps, 1);
  const series = (points) => state.runs.flatMap((run) => run.records.map((record, i) => ({
    name: run.spec, style: run.style, points: points(record).map(([x, y]) => ({ x, y })),
    faint: i + 1 < run.records.length })));
  // The first losses are so high that the others would look alike beside them.
  const first = state.runs.some((run) => run.taken > kFirstShown * 5 * most)
    ? kFirstShown * most : 0;
  const now = (text) => state.runs.map((run) => `${run.spec} ${text(run)}`).join("; ");
  const steps = { kind: "lines", marks: 1, xTitle: "steps", x: { range: [0, most] } };
  drawInto("loss-chart", kLowChart, { ...steps, title: "Training loss, nats",
    series: series(({ losses }) => losses.filter(([step]) => step >= first)),
    label: `Training loss: ${now(({ record }) => numberText(record?.losses.at(-1)?.[1], 3))}` });
  const checks = (value) => series((record) =>
    courseOf(record).map((check) => [check.step, value(check)]));
  drawInto("validation-chart", kLowChart, answered
    ? { ...steps, series: checks((check) => 100 * check.answers), y: percentAxis,
      levels: baselinesOf(state.runs[0]), title: "Right answers",
      label: `Right answers: ${now(({ last }) => percentText(last?.answers))}` }
    : { ...steps, series: checks((check) => check.loss), levels: guessLevels(),
      title: "Validation loss, nats",
      label: `Validation loss: ${now(({ last }) => numberText(last?.loss, 3))}` });
}

// Shows what the engine says of runs that have finished, by the rule of `headcount compare`; of
// fewer seeds than that takes, that they are too few.
async function judge() {
  const { runs } = state, isJudged = state.phase === "trained" && runs.length > 1 &&
    runs.every((run) => run.finished.every(({ checks }) => checks.length));
  const seeds = Math.min(...runs.map((run) => run.records.length));
  const isShort = seeds < kMostSeeds && runs.every((run) => run.finished.length);
  let texts = [];
  if (isJudged && isShort) {
    texts = [`A verdict takes ${kMostSeeds} seeds, trainings with other random numbers; this is ` +
      `${plural(seeds, "seed")}, which decides nothing.`];
  } else if (isJudged) {
    const measure = measureOf(runs), asked = {
      baselines: measure === "loss" ? null : runs[0].plan.baselines,
      steps: measure === "steps" ? Math.max(...runs.map((run) => run.steps)) : 0,
      runs: runs.map(({ spec, plan, records }) => ({ spec, bytes: plan.cache.bytes_per_token,
        seeds: records.filter((record) => record.files || record.diverged).map((record) =>
          ({ ...record.checks.at(-1), seed: record.seed, learned: record.learned,
            checks: courseOf(record), diverged: record.diverged !== "" })) })) };
    texts = await planningEngine().call({ do: "judge", ...asked })
      .then(({ verdicts }) => verdicts)
      .catch(({ message }) => [`These trainings cannot be judged: ${message}`]);
    if (state.runs !== runs || state.phase !== "trained") return; // changed meanwhile
  }
  byId("verdicts").replaceChildren(...texts.map((text) => h("li", {}, text)));
}

// What the newest right answers rest on.
function questionsText() {
  const asked = state.runs.map((run) => run.last?.questions ?? 0);
  const fewest = Math.min(...asked), most = Math.max(...asked);
  if (fewest === 0) return "";
  const count = fewest === most ? numberText(most) : `${numberText(fewest)} to ${numberText(most)}`;
  return `Right answers: to ${count} questions in a part of the text that no model is trained on.`;
}

function statusText() {
  if (state.phase === "paused") return "Paused.";
  if (state.phase === "training") {
    const left = secondsLeft();
    return left === null ? "Training …" : `Training, about ${durationText(left)} left.`;
  }
  if (state.runs === state.builtIn) return "Trained when this page was made.";
  if (!state.runs.some((run) => run.settings)) return "Opened from files.";
  const seeds = Math.max(...state.runs.map((run) => run.records.length));
  const failed = state.runs.filter((run) => run.error).map((run) => run.spec);
  return `Trained with ${plural(seeds, "seed")}${failed.length
    ? `; failed: ${failed.join(", ")}` : ""}.`;
}

function draw() {
  if (state.runs.length === 0) return;
  const measure = measureOf(state.runs), answered = measure !== "loss";
  for (const row of rows.show(state.runs)) row.update(answered);
  byId("answers-head").hidden = !answered;
  drawCacheChart(measure);
  drawCurves(answered);
  setText(byId("status"), statusText());
  byId("baseline-note").hidden = !answered;
  setText(byId("questions-note"), answered ? questionsText() : "");
  setText(byId("loss-warning"), answered ? "" : lossWarning(state.runs));
}

function showButtons() {
  const { phase } = state, trained = phase === "trained";
  byId("watch").hidden = state.runs.length === 0; // now, for whoever scrolls to it
  const focused = [byId("pause"), byId("stop")].includes(document.activeElement);
  byId("pause").hidden = !isBusy();
  setText(byId("pause"), phase === "paused" ? "Go on" : "Pause");
  byId("stop").hidden = !isBusy();
  byId("to-ask").hidden = !trained || state.runs === state.builtIn;
  byId("more-seeds").hidden = !trained || !state.runs.some((run) => run.settings) ||
    state.runs.every((run) => run.records.length >= kMostSeeds);
  byId("save").hidden = !trained || !state.runs.some((run) => run.isTrained && run.finished.length);
  if (focused && !isBusy())
    (byId("more-seeds").hidden ? byId("train") : byId("again")).focus({ preventScroll: true });
}

export function setUpWatch() {
  const soon = beforePaint(draw);
  on("progress", soon);
  on("phase", () => {
    showButtons();
    soon();
    judge();
  });
  new ResizeObserver(soon).observe(byId("watch"));
}
