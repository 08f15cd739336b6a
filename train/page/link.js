// The link of a report: headcount.html#settings={"settings": {...}, "attentions": ["mha", ...]},
// URL-encoded.
import { kindOf } from "./specs.js";
import { kMostCards, makeCard, state } from "./state.js";
import { texts } from "./texts.js";

// Settings that the page or its workers decide by themselves.
export const kNotTaken = ["data", "attention", "seed", "seeds", "out", "eval-every",
  "checkpoint-every", "keep", "stop-after", "stop-at-answers", "stop-at-loss",
  "validation", "init", "precision", "shards"];

const isObject = (value) => value?.constructor === Object;

// What a link asks for: {settings, attentions}; null if it has another form.
function askedBy(text) {
  try {
    const asked = JSON.parse(decodeURIComponent(text));
    const { settings = {}, attentions = [] } = asked;
    return isObject(asked) && isObject(settings) && Array.isArray(attentions)
      ? { settings, attentions } : null;
  } catch {
    return null;
  }
}

// Takes over what the address asks for. Returns a sentence on what could not be taken, or "".
export function readLink(hash = location.hash) {
  const given = /^#settings=(.+)$/.exec(hash);
  if (!given) return "";
  const asked = askedBy(given[1]);
  if (!asked)
    return "The settings in this page’s address cannot be read; these are the usual ones.";
  const notes = [], { settings } = asked;
  const known = Object.hasOwn(texts, settings.data);
  state.text = known ? settings.data : "own";
  if (!known)
    notes.push(`The comparison’s text, ${settings.data}, is not here: drop it on the page.`);
  for (const [name, value] of Object.entries(settings))
    if (!kNotTaken.includes(name)) state.changed[state.text][name] = value;
  const attentions = asked.attentions.map((spec) => String(spec).trim()).filter(Boolean);
  if (attentions.length) {
    state.cards = [];
    for (const spec of attentions.slice(0, kMostCards)) state.cards.push(makeCard(spec));
  }
  const changed = state.changed[state.text];
  if (state.cards.every(({ choice }) => !choice.own)) { // so that the cards' sliders move it
    for (const { choice } of state.cards)
      if (kindOf(choice).attends) choice.window ||= changed.window ?? 0;
    delete changed.window;
  }
  if (attentions.length === 1) state.cards.push(makeCard(attentions[0] === "mqa" ? "mha" : "mqa"));
  if (attentions.length > kMostCards) {
    notes.push(`The page takes ${kMostCards} attentions at a time; left out: ` +
      `${attentions.slice(kMostCards).join(", ")}.`);
  }
  return notes.join(" ");
}
