// What an address asks for: headcount.html#settings={"settings": {...}, "attentions": ["mha"]},
// URL-encoded, as a report links to the page. The page's own address also has "seeds" and "text".
import { kMostCards, kMostSeeds, makeCard, nameOf, setOwnText, state } from "./state.js";
import { texts } from "./texts.js";

const kLongestLinked = 10_000; // characters of a reader's own text

// Questions to begin with, as a link would ask them.
export const presets = [
  ["Lookups: four KV heads or one?", "lookup", ["gqa4x8", "mqax32"]],
  ["Recall: four KV heads or one?", "recall", ["mha", "mqa"]],
  ["Recall: a latent instead", "recall", ["mha", "mqa", "mla32+0"]],
].map(([name, data, attentions]) => ({ name, asked: { settings: { data }, attentions } }));

// Settings that the page or its workers decide by themselves.
export const kNotTaken = ["data", "attention", "seed", "seeds", "out",
  "checkpoint-every", "keep", "stop-after", "stop-at-loss", "validation", "init", "precision",
  "shards"];

const isObject = (value) => value?.constructor === Object;

// What a link asks for; null if it has another form.
function askedBy(given) {
  try {
    const asked = JSON.parse(decodeURIComponent(given));
    const { settings = {}, attentions = [] } = asked;
    return isObject(asked) && isObject(settings) && Array.isArray(attentions)
      ? { ...asked, settings, attentions } : null;
  } catch {
    return null;
  }
}

// Takes over {settings, attentions, seeds, text}. Returns a sentence on what could not be taken.
export function takeAsked({ settings, attentions: given, seeds, text }) {
  const notes = [], known = Object.hasOwn(texts, settings.data);
  state.text = known ? settings.data : "own";
  if (!known)
    notes.push(`The comparison’s text, ${settings.data}, is not here: drop it on the page.`);
  if (typeof text === "string") setOwnText(text);
  if (seeds >= 1) state.seeds = Math.min(kMostSeeds, Math.floor(seeds));
  state.changed[state.text] = Object.fromEntries(
    Object.entries(settings).filter(([name]) => !kNotTaken.includes(name)));
  const attentions = given.map((spec) => String(spec).trim()).filter(Boolean);
  if (attentions.length === 1) attentions.push(attentions[0] === "mqa" ? "mha" : "mqa");
  if (attentions.length) state.cards = [];
  for (const spec of attentions.slice(0, kMostCards)) state.cards.push(makeCard(spec));
  if (attentions.length > kMostCards) {
    notes.push(`The page takes ${kMostCards} attentions at a time; left out: ` +
      `${attentions.slice(kMostCards).join(", ")}.`);
  }
  return notes.join(" ");
}

// Takes over what the address asks for. Returns a sentence on what could not be taken, or "".
export function readLink(hash = location.hash) {
  const given = /^#settings=(.+)$/.exec(hash);
  if (!given) return "";
  const asked = askedBy(given[1]);
  return asked ? takeAsked(asked)
    : "The settings in this page’s address cannot be read; these are the usual ones.";
}

export const isLinked = (text) => text.length <= kLongestLinked;

// Address that makes another page choose what this one has chosen.
export function linkOfChoice() {
  const asked = { settings: { data: state.text, ...state.changed[state.text] },
    attentions: state.cards.map(nameOf), seeds: state.seeds };
  if (state.text === "own" && isLinked(state.own)) asked.text = state.own;
  return `#settings=${encodeURIComponent(JSON.stringify(asked))}`;
}
