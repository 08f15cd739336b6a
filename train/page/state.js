// What the page knows: the choices of its reader, and the runs made from them.
import { tell } from "./dom.js";
import { specOf } from "./specs.js";
import { commonSettings, hasSetting, texts } from "./texts.js";

export const kLeastCards = 2, kMostCards = 4, kMostSeeds = 5;

export const state = {
  text: "lookup",
  own: "", // the reader's own text
  ownVersion: 0, // grows with every change of it
  // Settings that differ from the text's own.
  changed: { lookup: {}, recall: {}, tales: {}, own: {} },
  seeds: 1,
  cards: [], // see makeCard
  runs: [], // see Run in training.js
  builtIn: null, // the runs with which the page opened, trained when it was built
  trained: null, // {text, version, settings} of the runs, as chosen when their training began
  phase: "choosing", // "choosing", "training", "paused" or "trained"
};

// A card: an attention that is chosen, with the engine's plan for it. `style` is its colour and
// mark; `error` says why there is no plan.
export function makeCard(spec) {
  const used = state.cards.map((card) => card.style);
  const style = [0, 1, 2, 3].find((number) => !used.includes(number));
  return { choice: { own: spec }, style, plan: null, error: "", key: "", pace: null };
}

// Name of a card's attention, the shortest that is known.
export const nameOf = (card) => card.plan && !card.error && isPlanned(card) ? card.plan.spec
  : specOf(card.choice);

// Settings that all cards share.
export const sharedSettings = () =>
  ({ ...texts[state.text].settings, ...state.changed[state.text] });

// Settings of a card for the engine, as on the command line, without the seed.
export function settingsOf(card) {
  const settings = sharedSettings();
  if (state.text === "own") settings.text = state.own;
  return { ...settings, attention: specOf(card.choice) };
}

// Text that is equal for two cards that are planned and trained alike.
export function keyOf(card) {
  const { text, ...settings } = settingsOf(card);
  return JSON.stringify([settings, text === undefined ? 0 : state.ownVersion]);
}

// Returns true if the card's plan, or its error, is that of its present settings.
export const isPlanned = (card) => card.key === keyOf(card);

// Returns true if all cards can be trained.
export const isReady = () => state.cards.length > 0 &&
  state.cards.every((card) => card.plan && !card.error && isPlanned(card)) &&
  !(state.text === "own" && !state.own);

// Returns true if a run is what its card would train now.
export const isOfCard = (run) => state.cards.some((card) => keyOf(card) === run.key);

// Takes note of what the runs learn from.
export function noteTrained() {
  state.trained = { text: state.text, version: state.ownVersion, settings: sharedSettings() };
}
// Returns true if another text is chosen than the one that the runs learned from.
export const isOtherText = () => state.runs.length > 0 && (state.trained.text !== state.text ||
  state.text === "own" && state.trained.version !== state.ownVersion);

export function setOwnText(text) {
  state.own = text;
  ++state.ownVersion;
}

export function setPhase(phase) {
  state.phase = phase;
  tell("phase");
}

export const isBusy = () => state.phase === "training" || state.phase === "paused";

// Value of a shared setting: the reader's, else the engine's.
export function commonValue(name) {
  const plan = state.cards.find((card) => card.plan)?.plan;
  return state.changed[state.text][name] ?? texts[state.text].settings[name]
    ?? plan?.settings[name];
}

export const shownSettings = () =>
  commonSettings.filter((setting) => hasSetting(setting, state.text));
