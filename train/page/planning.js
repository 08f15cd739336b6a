// Plans of the chosen attentions (sizes, caches, errors) and how long their training will take. An
// engine of its own plans, another measures, so that neither waits for the other or for training.
import { tell } from "./dom.js";
import { Engine } from "./engine.js";
import { isBusy, keyOf, settingsOf, state } from "./state.js";

const kQuiet = 600; // ms without a change before training is measured
const kMeasured = 250; // ms of measured steps
const kShareOfSteps = 0.9; // of the time of training; the rest goes into evaluations

let planner = null;
let measurer = null;
let planning = false;
let measuring = false;
let timer = 0;
const paces = new Map(); // by key: ms a step

// Engine for plans, made when it is first needed.
export function planningEngine() {
  planner ??= new Engine();
  return planner;
}

const isPlanned = (card) => card.key === keyOf(card);

// Plans all cards whose settings have changed, then measures them.
export async function replan() {
  clearTimeout(timer);
  if (planning || state.text === "own" && !state.own) return;
  planning = true;
  for (let card; (card = state.cards.find((each) => !isPlanned(each)));) {
    const key = keyOf(card);
    let plan = null, error = "";
    try {
      plan = await planningEngine().call({ do: "plan", settings: settingsOf(card) });
    } catch (refused) {
      error = refused.message;
    }
    if (keyOf(card) !== key) continue; // it has changed again
    Object.assign(card, { key, error, pace: paces.get(key) ?? null });
    if (plan) card.plan = plan;
    tell("planned");
  }
  planning = false;
  timer = setTimeout(measure, kQuiet);
}

async function paceOf(settings) {
  measurer ??= new Engine();
  const engine = measurer;
  await engine.call({ do: "start", settings: { ...settings, seed: 1 } });
  await engine.call({ do: "step", steps: 2 }); // the first steps allocate memory
  let steps = 0, ms = 0;
  while (ms < kMeasured) {
    const begin = performance.now();
    await engine.call({ do: "step", steps: 1 });
    ms += performance.now() - begin;
    ++steps;
  }
  return ms / steps;
}

async function measure() {
  if (measuring || isBusy()) return;
  measuring = true;
  const failed = new Set(); // there is no estimate; training will report the error
  const waits = (card) => isPlanned(card) && !card.error && !card.pace && !failed.has(card.key);
  // Looks for the next card each time, because cards may change while one is measured.
  for (let card; !isBusy() && (card = state.cards.find(waits));) {
    const { key } = card;
    try {
      paces.set(key, await paceOf(settingsOf(card)));
    } catch {
      failed.add(key);
    }
    for (const each of state.cards) if (each.key === key) each.pace = paces.get(key) ?? null;
    tell("planned");
  }
  measuring = false;
}

// Seconds that training takes, or null before it is measured. Workers share the processor's cores.
export function estimatedSeconds() {
  const each = state.cards.map(
    (card) => card.pace && !card.error ? card.pace * card.plan.settings.steps * state.seeds : null);
  if (!each.length || each.includes(null)) return null;
  const cores = Math.max(1, Math.min(each.length, navigator.hardwareConcurrency || 2));
  const sum = each.reduce((a, b) => a + b, 0);
  return Math.max(...each, sum / cores) / 1000 / kShareOfSteps;
}
