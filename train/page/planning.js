// Plans of the chosen attentions (sizes, caches, errors) and how long their training will take. An
// engine of its own plans, another measures, so that neither waits for the other or for training.
import { oneAtATime, tell } from "./dom.js";
import { Engine } from "./engine.js";
import { isBusy, isPlanned, keyOf, settingsOf, state } from "./state.js";

const kQuiet = 600; // ms without a change before training is measured
const kMeasured = 250; // ms of measured steps
const kShareOfSteps = 0.9; // of the time of training; the rest goes into evaluations

let planner = null;
let measurer = null;
let timer = 0;
const paces = new Map(); // by key: ms a step

// Engine for plans, made when it is first needed.
export function planningEngine() {
  planner ??= new Engine();
  return planner;
}

async function plan(card) {
  const key = keyOf(card);
  let error = "";
  const planned = await planningEngine().call({ do: "plan", settings: settingsOf(card) })
    .catch(({ message }) => { error = message; });
  if (keyOf(card) !== key) return; // it has changed again
  if (planned) card.plan = planned;
  const { own, written, unread } = card.choice;
  if (own && (!written || unread)) // as the engine reads it, once it does
    card.choice = planned?.choice ?? { ...card.choice, written: true, unread: !planned };
  const now = keyOf(card);
  Object.assign(card, { key: now, error, pace: paces.get(now) ?? null });
  tell("planned");
}

// Plans all cards whose settings have changed, then measures them.
export const replan = oneAtATime(async () => {
  clearTimeout(timer);
  if (state.text === "own" && !state.own) return;
  for (let card; (card = state.cards.find((each) => !isPlanned(each)));) await plan(card);
  timer = setTimeout(measure, kQuiet);
});

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

const measure = oneAtATime(async () => {
  const waits = (card) => isPlanned(card) && !card.error && card.pace === null;
  // Looks for the next card each time, because cards may change while one is measured.
  for (let card; !isBusy() && (card = state.cards.find(waits));) {
    const { key } = card;
    paces.set(key, await paceOf(settingsOf(card)).catch(() => NaN)); // training tells the error
    for (const each of state.cards) if (each.key === key) each.pace = paces.get(key);
    tell("planned");
  }
});

// Seeds of a card that are not trained yet.
function seedsLeft(card) {
  const run = state.runs.find(({ isTrained, key }) => isTrained && key === card.key);
  return Math.max(0, state.seeds - (run?.records.length ?? 0));
}

// Seconds that training takes; null before it is measured, NaN if it cannot be. Workers share the
// processor's cores.
export function estimatedSeconds() {
  const each = state.cards.map((card) => card.pace === null || card.error ? null
    : card.pace * card.plan.settings.steps * seedsLeft(card));
  if (!each.length || each.includes(null)) return null;
  const cores = Math.min(each.length, navigator.hardwareConcurrency || 2);
  const sum = each.reduce((a, b) => a + b, 0);
  return Math.max(...each, sum / cores) / 1000 / kShareOfSteps;
}
