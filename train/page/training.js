// Training of the chosen attentions, each by an engine of its own.
import { withSums } from "./checksums.js";
import { say, tell } from "./dom.js";
import { Engine } from "./engine.js";
import { plural } from "../view/format.js";
import { upTo } from "./specs.js";
import { isOfCard, keyOf, nameOf, noteTrained, setPhase, settingsOf, state } from "./state.js";

const kRequest = 100; // ms that a request for steps may take, so that questions need not wait
const kChecks = 25; // evaluations of a run, besides the last
const kCheckTokens = 4096, kLastCheckTokens = 40960;
const kMostPoints = 400; // of a curve

let resume = null; // {promise, go}: what paused runs wait for

// Returns true if a run ends when it has learned, so that steps to learn are compared.
export const marksLearned = (run) => run.plan.settings["stop-at-answers"] > 0;

// An attention in training or trained. `records` has one entry for each seed: {seed, losses,
// checks, step, learned, files, diverged}, losses [[step, loss]], checks [{step, loss, answers,
// questions}], of the last step two, the second one on more text, learned the step of the check
// that showed it, or 0, files the trained state, diverged the reason why there is none.
export class Run {
  constructor({ spec, style, plan, settings = null, key = "" }) {
    Object.assign(this, { spec, style, plan, settings, key, steps: plan.settings.steps,
      engine: new Engine(), records: [], error: "", ended: false, held: null });
    this.seconds = 0; // of steps
    this.taken = 0; // steps of all seeds
  }

  get record() {
    return this.records.at(-1);
  }
  get last() {
    return this.record?.checks.at(-1);
  }
  get isDone() {
    return this.error !== "" || !this.settings || this.isTrained;
  }
  get isTrained() {
    return this.records.length > 0 &&
      this.records.every((record) => record.files || record.diverged);
  }
  get finished() {
    return this.records.filter((record) => record.files);
  }
  get divergedText() {
    const lost = this.records.filter((record) => record.diverged);
    return lost.length ? `${plural(lost.length, "seed")} diverged: ${lost.at(-1).diverged}` : "";
  }
  get tokensPerSecond() {
    const { batch, context, accumulate = 1 } = this.plan.settings;
    return this.seconds > 0 ? this.taken * batch * context * accumulate / this.seconds : NaN;
  }

  // Trains with one more seed. One that diverges is recorded, so that others can follow it.
  async train(seed) {
    const record = { seed, losses: [], checks: [], step: 0, learned: 0, files: null, diverged: "" };
    this.records.push(record);
    try {
      await this.learn(record);
    } catch (error) {
      if (!error.diverged) throw error;
      record.diverged = error.message;
      tell("progress");
    }
  }

  async learn(record) {
    const { seed } = record;
    await this.engine.call({ do: "start", settings: { ...this.settings, seed } });
    this.held = record;
    // A run that ends when it has learned is looked at as the program does.
    const { "eval-every": every, "eval-characters": characters } = this.plan.settings;
    const period = marksLearned(this) ? every : this.steps / kChecks;
    const checked = marksLearned(this) ? characters ?? 0 : kCheckTokens;
    await this.check(record, checked);
    let steps = 1, nextCheck = period;
    while (record.step < this.steps && !record.learned) {
      if (resume) await resume.promise;
      if (this.ended) return;
      const begin = performance.now();
      const most = Math.ceil(nextCheck) - record.step;
      const asked = Math.max(1, Math.min(steps, most));
      const reply = await this.engine.call({ do: "step", steps: asked });
      const ms = performance.now() - begin;
      this.seconds += ms / 1000;
      this.taken += asked;
      steps = Math.max(1, Math.round(Math.min(2 * steps, asked * kRequest / ms)));
      if (reply.step === record.step) break; // the engine has no more steps
      record.step = reply.step;
      addPoint(record.losses, [reply.step, reply.loss]);
      if (reply.step >= nextCheck || reply.step === this.steps) {
        nextCheck += period;
        await this.check(record, checked);
      }
      tell("progress");
    }
    await this.check(record, kLastCheckTokens);
    record.files = await withSums((await this.engine.call({ do: "save" })).files);
    tell("progress");
  }

  async check(record, tokens) {
    const { step, loss, answers, questions, learned } =
      await this.engine.call({ do: "evaluate", tokens });
    record.checks.push({ step, loss, answers, questions });
    if (learned) record.learned ||= step;
  }

  // Makes sure that the engine has the model of that seed.
  async hold(record) {
    if (this.held === record || !record.files) return;
    await this.engine.call({ do: "open" }, record.files);
    this.held = record;
  }

  end() {
    this.ended = true;
    this.engine.end();
  }
}

// Keeps a curve short: when it is full, every other point goes.
function addPoint(points, point) {
  points.push(point);
  if (points.length > kMostPoints) {
    for (let i = 1; i < points.length; ++i) points.splice(i, 1);
  }
}

async function trainSeeds(run, seeds) {
  try {
    for (const seed of seeds) {
      if (!run.ended) await run.train(seed);
    }
    if (!run.finished.length) throw new Error(run.divergedText);
    if (run.record.diverged) await run.hold(run.finished.at(-1));
  } catch (error) {
    if (run.ended) return;
    run.error = error.message;
    tell("progress");
  }
}

async function finish(trainings) {
  const { runs } = state;
  await Promise.all(trainings);
  if (state.runs !== runs || runs.some((run) => run.ended)) return; // a new training has begun
  setPhase("trained");
  say("Training has finished.");
  tell("progress");
}

export function endRuns() {
  for (const run of state.runs) run.end();
  pauseOff();
  state.runs = [];
}

function pauseOff() {
  resume?.go();
  resume = null;
}

// Trains all cards. A run whose card is as it was when it was trained is kept.
export function startTraining() {
  const seeds = upTo(state.seeds);
  const kept = state.runs.filter((run) => run.isTrained && run.key && isOfCard(run));
  for (const run of state.runs) if (!kept.includes(run)) run.end();
  pauseOff();
  state.runs = state.cards.map((card) => {
    const at = kept.findIndex((each) => each.key === keyOf(card));
    if (at >= 0) return Object.assign(kept.splice(at, 1)[0], { style: card.style });
    return new Run({ spec: nameOf(card), style: card.style, plan: card.plan,
      settings: settingsOf(card), key: keyOf(card) });
  });
  for (const run of kept) run.end(); // of two equal cards, one is gone
  noteTrained();
  setPhase("training");
  say("Training has begun.");
  finish(state.runs.map((run) => {
    const done = run.records.map((record) => record.seed);
    return trainSeeds(run, seeds.filter((seed) => !done.includes(seed)));
  }));
}

export function pause() {
  resume = {};
  resume.promise = new Promise((go) => { resume.go = go; });
  setPhase("paused");
}
export function goOn() {
  pauseOff();
  setPhase("training");
}

// Ends training; what was learned is given up, the settings stay.
export function stopTraining() {
  endRuns();
  setPhase("choosing");
}

// Seconds until all runs have finished, by their present speed; null at the beginning.
export function secondsLeft() {
  const runs = state.runs.filter((run) => !run.isDone);
  return runs.some(({ taken }) => taken < 3) ? null : Math.max(0, ...runs.map(
    ({ steps, taken, seconds }) => (steps * state.seeds - taken) * seconds / taken));
}
