// The first section: a question to all trained attentions, and their answers side by side.
import { Board } from "./board.js";
import { scaleOfPlans } from "./caches.js";
import { button, byId, h, oneAtATime, on, say, setText, Views } from "./dom.js";
import { listText, mean, numberText, percentText, plural, shownCharacter } from "../view/format.js";
import { askedPiece, lookupAnswer, piecesIn } from "../view/lookups.js";
import { Look } from "./look.js";
import { Sliders } from "./controls.js";
import { planningEngine } from "./planning.js";
import { settingsOf, state } from "./state.js";
import { randomRecall, recallAnswer, seeded, texts } from "./texts.js";
import { measureOf, scoresOf } from "./watch.js";

const kPairs = 4; // of recall, by default
const kPlayed = 350; // ms that a character is shown while the cache fills
const kTale = "Clara is in the mill. Tom is in the barn. Ida is in the mill.\n" +
  "Tom has the cup. Ida has the map.\n" +
  "Ida gives the map to Clara. Tom runs to the mill. Tom puts down the cup.\n" +
  "Where is the cup? In the ";
const kPromptLabels = {
  lookup: "The question as text: one character for each piece, then the letter",
  recall: "Pairs of a key and its value, then a key: which value belongs to it?",
};
const kSliders = [
  { name: "tokens", label: "characters", help: "how many they write",
    values: [1, 5, 10, 20, 40, 60, 120, 240] },
  { name: "temperature", label: "temperature", values: [0, 0.3, 0.5, 0.8, 1, 1.2],
    help: "0 takes the likeliest character; more leaves more to chance" },
  { name: "cache", label: "cache type", values: ["f32", "f16", "int8", "int4", "int3", "int2",
    "int2+layer1=f32"], help: "bits of a number in the cache that answers are read from; in the " +
    "last one the first layer is as computed" },
];
const kChips = 6; // questions that are offered at once
const kTries = 1000; // questions among which one is sought on which the models differ

const views = new Views(byId("looks"), (run) => new Look(run, pick));
let looks = [];
let at = 1; // position of the character that is shown
let playing = 0; // timer
let questions = []; // [{prompt, answer}] of the validation text
let validation = ""; // a piece of it
let busy = false; // with a question, or with the search for one
const chosen = { tokens: 10, temperature: 0, cache: "f32" };
const board = new Board(askText);

const sliders = new Sliders(byId("ask-sliders"), (name, value) => {
  chosen[name] = value;
  ask();
});

function textOf() {
  const data = state.runs[0]?.plan.settings.data;
  return Object.hasOwn(texts, data) ? data : "own";
}
const askable = () => state.runs.filter((run) => !run.error && run.held &&
  (run.isTrained ? run.finished.length : run.record?.step ?? 0) > 0);

// Pairs of a line of recall; a checkpoint does not say how many it had.
const pairsOf = (run) => run.plan.settings.pairs ?? kPairs;

// A beginning that a model knows, if it comes without its text: a question of recall, a line break,
// or the first character of its vocabulary.
function knownBeginning(run, kind) {
  const file = run.held.files?.find(({ name }) => name === "tokenizer.json");
  if (!file) return "\n";
  const { vocab } = JSON.parse(new TextDecoder().decode(file.bytes)).model;
  if (kind === "recall") return randomRecall(Object.keys(vocab), pairsOf(run));
  return Object.hasOwn(vocab, "\n") ? "\n" : Object.keys(vocab)[0].replace("\u2581", " ");
}

// The right first character, where the page knows it.
function expectedOf(prompt) {
  if (textOf() === "lookup") return lookupAnswer(piecesIn(prompt), [...prompt].at(-1) ?? "");
  const known = questions.find((question) => question.prompt === prompt);
  if (known?.answer) return [...known.answer][0];
  return textOf() === "recall" ? recallAnswer(prompt, pairsOf(state.runs[0])) : null;
}

// Does one thing at a time with all models, and tells why it failed.
async function alone(action) {
  if (busy) return;
  busy = byId("differ").disabled = true;
  try {
    await action();
  } catch ({ message }) {
    setText(byId("ask-error"), message);
  } finally {
    busy = byId("differ").disabled = false;
  }
}

async function answer() {
  const prompt = byId("prompt").value, runs = askable();
  if (!runs.length) return;
  const length = [...prompt].length, { context } = runs[0].plan;
  setText(byId("ask-error"), length === 0
    ? "Type a few characters for the attentions to continue." : length >= context
      ? `This text has ${numberText(length)} characters; the models read ${numberText(context)} ` +
        "at most, and need one more for their answer. Shorten it." : "");
  if (length === 0 || length >= context) return;
  stopPlaying();
  looks = views.show(runs);
  const expected = expectedOf(prompt);
  // While it trains, an engine has the model in training and no other.
  const seed = state.phase === "trained" ? Number(byId("asked-seed").value) || 1 : null;
  const tokens = Math.min(chosen.tokens, context - length);
  await Promise.all(looks.map((look) =>
    look.ask({ ...chosen, prompt, tokens, expected, seed })));
  setText(byId("cut-note"), [tokens < chosen.tokens && texts[textOf()].characters > 1
    ? `Answers end where the context of ${plural(context, "character")} does.` : "",
  chosen.cache === "f32" ? "" : `Answers are those of a cache in ${chosen.cache}; what heads ` +
    "look at is shown without its rounding."].filter(Boolean).join(" "));
  say(looks.map(({ run, judgement }) => `${run.spec}: ${judgement.textContent || "answered"}`)
    .join("; "));
  byId("looking").hidden = false;
  pick(length);
}

const ask = oneAtATime(() => alone(answer));

function askText(text) {
  byId("prompt").value = text;
  ask();
}

const lengthOfAll = () => Math.max(2, ...looks.map((look) => look.length));

// Shows the moment before the character at that position.
function pick(position) {
  at = Math.max(1, Math.min(position, lengthOfAll() - 1));
  const scrub = byId("scrub");
  scrub.max = lengthOfAll() - 1;
  scrub.value = at;
  const character = looks[0]?.steps.length && at < looks[0].length ? looks[0].characterAt(at) : "";
  const text = `character ${at + 1} of ${lengthOfAll()}`;
  scrub.setAttribute("aria-valuetext", `${text}: ${shownCharacter(character)}`);
  setText(byId("scrubbed"), text);
  const shown = looks.filter((look) => look.steps.length);
  if (!shown.length) return;
  const scale = scaleOfPlans(shown.map((look) => look.run.plan));
  for (const look of shown) look.show(at, scale);
}

function stopPlaying() {
  clearInterval(playing);
  playing = 0;
  setText(byId("play"), "▶ Watch the cache fill");
}
function play() {
  if (playing) {
    stopPlaying();
    return;
  }
  if (at >= lengthOfAll() - 1) pick(1);
  setText(byId("play"), "❚❚ Stop");
  playing = setInterval(() => {
    pick(at + 1);
    if (at >= lengthOfAll() - 1) stopPlaying();
  }, kPlayed);
}

// The end of a text that a context has room for, with an answer: whole lines if they fit.
function fitting(text, context) {
  let rest = text;
  while ([...rest].length >= context && rest.includes("\n"))
    rest = rest.slice(rest.indexOf("\n") + 1);
  return [...rest].slice(-(context - 1)).join("");
}

// The attention with the fewest right answers, or the greatest loss.
function worstOf(runs) {
  const measure = measureOf(runs);
  const score = (run) => mean(scoresOf(run, measure)) * (measure === "answers" ? 1 : -1);
  return runs.reduce((a, b) => score(b) < score(a) ? b : a);
}

// Returns true if no head looks most at the piece that is asked for, so that a first visitor sees
// why the answer is wrong.
function looksAway({ steps: [{ weights }] }, prompt) {
  const asked = askedPiece(piecesIn(prompt), [...prompt].at(-1));
  return weights.flat().every((some) => some.indexOf(Math.max(...some)) !== asked);
}

// A question that some model gets right and that attention wrong; of an own text, one on which
// answers differ. One whose wrong answer `isClear(reply, prompt)`, if there is one.
async function differentQuestion(random, isClear) {
  const runs = askable(), worst = worstOf(runs), { context } = runs[0].plan, kind = textOf();
  let unclear = "";
  const text = [...validation], own = () => text.slice(Math.floor(random() * text.length));
  for (let i = 0; i < kTries; ++i) {
    const prompt = kind === "lookup" ? board.random(random) : kind !== "own" ? questions[i]?.prompt
      : own().slice(0, Math.min(context, 24) - 1).join("");
    if (!prompt) break;
    const right = expectedOf(prompt), replies = await Promise.all(runs.map((run) =>
      run.engine.call({ do: "ask", prompt, tokens: 1, cache: chosen.cache })));
    const said = replies.map(({ text }) => [...text][0]), wrong = runs.indexOf(worst);
    if (right === null ? new Set(said).size > 1 : said[wrong] !== right && said.includes(right)) {
      if (isClear(replies[wrong], prompt)) return prompt;
      unclear ||= prompt;
    }
  }
  if (unclear) return unclear;
  throw new Error(`Among ${kTries} questions there is none on which they differ so.`);
}
async function showDifferent(random = Math.random, isClear = () => true) {
  let prompt = "";
  await alone(async () => { prompt = await differentQuestion(random, isClear); });
  if (!prompt) return;
  if (textOf() === "lookup") board.read(prompt);
  askText(prompt);
}

// The text of an opened model, which comes without it: the grammar writes one like it.
async function writtenText(kind) {
  const nothing = { questions: [], validation: "" }, engine = planningEngine();
  if (kind === "own") return nothing;
  return engine.call({ do: "plan", settings: settingsOf(state.cards[0]) })
    .then(() => engine.call({ do: "text" })).catch(() => nothing);
}

// Questions and a beginning to continue, from the validation text where an engine has it.
async function prepare() {
  const kind = textOf(), run = askable()[0], { context } = run.plan;
  // An own text is another one after a change of it, and with every opened model.
  const text = kind !== "own" ? kind : run.settings ? state.ownVersion : run;
  const again = text === preparedText && byId("prompt").value !== "";
  preparedText = text;
  questions = [];
  validation = "";
  byId("board").hidden = byId("board-questions").hidden = kind !== "lookup";
  byId("prompt").rows = kPromptLabels[kind] ? 1 : 4;
  setText(byId("prompt-label"), kPromptLabels[kind] ?? "A text for the attentions to continue");
  byId("chips").replaceChildren();
  Object.assign(chosen, { tokens: texts[kind].characters, temperature: texts[kind].temperature });
  sliders.show(kSliders.map((slider) => ({ ...slider, value: chosen[slider.name] })));
  if (kind === "lookup") {
    board.setMost(run.plan.settings.directions ?? 6);
    if (again) ask();
    else if (state.runs === state.builtIn) showDifferent(seeded(1), looksAway); // as in page.png
    else board.shuffle();
    return;
  }
  const found = await run.engine.call({ do: "text" }).catch(() => writtenText(kind));
  questions = found.questions.filter(({ prompt }) => [...prompt].length < context);
  ({ validation } = found);
  byId("chips").replaceChildren(...questions.slice(0, kChips).map(({ prompt }) =>
    button(`…${prompt.trimEnd().split("\n").at(-1)}`, () => askText(prompt))));
  if (!again) {
    byId("prompt").value = questions[0]?.prompt ?? (kind === "tales" ? fitting(kTale, context)
      : fitting([...validation].slice(0, 30).join(""), context) || knownBeginning(run, kind));
  }
  ask();
}

// What the models are with which the page opens.
function builtInText() {
  const learned = state.runs.map(({ spec, record }) => `${spec} ${record.learned
    ? `has learned in ${numberText(record.learned)} steps`
    : `has not in ${numberText(record.step)} (it has ${
      percentText(record.checks.at(-1).answers, 0)} right)`}`);
  return "Models of equal caches and four query heads (the demo's have eight) were trained on " +
    "lookups when this page was made: gqa4x8 has four KV heads of 8 numbers, one for each query " +
    "head as mha has; mqax32 has one of 32 for all. " +
    `${listText(learned)}. The question below was chosen because ${worstOf(state.runs).spec} gets ` +
    "it wrong; under each answer stands where its heads look.";
}

let prepared = null; // the runs for which the section was prepared
let preparedText = ""; // and their text: a question that was typed stays while that does

function update() {
  const learning = state.runs.filter((run) => !run.error);
  const ready = askable().length > 0 && askable().length === learning.length;
  byId("ask").hidden = !ready;
  if (!ready) {
    if (!state.runs.length) {
      looks = views.show([]);
      prepared = null;
      byId("looking").hidden = true;
      stopPlaying();
    }
    return;
  }
  byId("differ").hidden = state.runs.length < 2 || state.phase !== "trained" ||
    textOf() === "own" && !validation;
  setText(byId("differ"), textOf() === "own" ? "Show one on which they differ"
    : `Show one that ${worstOf(askable()).spec} gets wrong`);
  setText(byId("ask-note"), state.runs === state.builtIn ? builtInText() : state.phase === "trained"
    ? "" : "The models are still in training: ask again later and see what has changed.");
  const seeds = state.runs[0].records.filter((r) => r.files || r.diverged).map((r) => r.seed);
  const select = byId("asked-seed");
  byId("seed-choice").hidden = seeds.length < 2 || state.phase !== "trained";
  if (String([...select.options].map(({ value }) => value)) !== String(seeds))
    select.replaceChildren(...seeds.map((seed) => h("option", { value: seed }, `seed ${seed}`)));
  if (prepared !== state.runs) {
    prepared = state.runs;
    prepare();
  }
}

export function setUpAsk() {
  byId("board").append(board.element);
  byId("board-questions").append(board.questions);
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("prompt").addEventListener("input", () => {
    if (textOf() === "lookup") board.read(byId("prompt").value);
  });
  byId("prompt").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    ask();
  });
  byId("scrub").addEventListener("input", (event) => {
    stopPlaying();
    pick(event.target.valueAsNumber);
  });
  byId("asked-seed").addEventListener("change", ask);
  byId("differ").addEventListener("click", () => showDifferent());
  byId("play").addEventListener("click", play);
  on("progress", update);
  on("phase", () => {
    const before = prepared; // of other runs: their question is still to come
    update();
    if (state.phase === "trained" && before === state.runs) ask();
  });
}
