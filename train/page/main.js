// The page: chooses attentions and a text, trains, asks. This file wires its parts.
import { setUpAsk } from "./ask.js";
import { setUpCards } from "./cards.js";
import { Slider } from "./controls.js";
import { byId, h, on, setText, tell } from "./dom.js";
import { setUpFiles } from "./files.js";
import { setUpModel } from "./model_cost.js";
import { durationText, numberText, plural } from "../view/format.js";
import { isLinked, linkOfChoice, presets, readLink, takeAsked } from "./link.js";
import { estimatedSeconds, planningEngine, replan } from "./planning.js";
import { kinds } from "./specs.js";
import { commonValue, isBusy, isOfCard, isOtherText, isReady, keyOf, kMostSeeds, makeCard,
  setOwnText, shownSettings, state } from "./state.js";
import { kLongestText, texts } from "./texts.js";
import { goOn, pause, startTraining, stopTraining } from "./training.js";
import { setUpWatch } from "./watch.js";

const kFirst = ["mha", "gqa2", "mqa"];

function setUpTexts() {
  byId("presets").append(...presets.map(({ name, asked }) => h("button", {
    type: "button", onclick: () => {
      takeAsked(asked);
      tell("chosen");
    },
  }, name)));
  byId("texts").append(...Object.entries(texts).map(([name, { name: shown, what }]) =>
    h("label", { class: "text-choice" },
      h("input", { type: "radio", name: "text", value: name, onchange: () => {
        state.text = name;
        tell("chosen");
      } }),
      h("strong", {}, shown), h("span", {}, what))));
  byId("own").addEventListener("input", () => takeText(byId("own").value));
  byId("own-file").addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    if (file) takeText(await file.text(), file.name);
    target.value = "";
  });
}

// Takes the reader's own text; its beginning if it is too long.
function takeText(text, name = "") {
  const cut = text.length > kLongestText;
  setOwnText(cut ? text.slice(0, kLongestText) : text);
  if (byId("own").value !== state.own) byId("own").value = state.own;
  state.text = "own";
  tell("chosen");
  const size = plural([...state.own].length, "character");
  const different = numberText(new Set(state.own).size);
  setText(byId("own-size"), `${name ? `${name}: ` : ""}${size}, ${different} different.` +
    (cut ? " The rest was cut off." : "") +
    (isLinked(state.own) ? "" : " It is too long for this page’s address."));
}

let shownFor = ""; // the shared sliders that the page has

function drawShared() {
  for (const input of document.querySelectorAll("input[name=text]"))
    input.checked = input.value === state.text;
  byId("own-text").hidden = state.text !== "own";
  const settings = shownSettings()
    .map((setting) => ({ ...setting, value: commonValue(setting.name) }))
    .filter(({ value }) => value !== undefined);
  for (const setting of settings) {
    if (!setting.values.includes(setting.value))
      setting.values = [...setting.values, setting.value].sort((a, b) => a - b);
  }
  const signature = JSON.stringify(settings.map(({ name, values }) => [state.text, name, values]));
  if (signature !== shownFor) {
    shownFor = signature;
    sliders.clear();
    for (const setting of settings) {
      sliders.set(setting.name, new Slider(setting, (value) => {
        state.changed[state.text][setting.name] = value;
        tell("chosen");
      }));
    }
    byId("shared").replaceChildren(...[...sliders.values()].map(({ element }) => element));
  }
  for (const { name, value } of settings) sliders.get(name).set(value);
}
const sliders = new Map();

function drawAction() {
  const same = state.runs.length > 0 && state.phase === "trained" &&
    state.cards.every((card) => state.runs.some((run) => run.isTrained &&
      run.key === keyOf(card) && run.records.length >= state.seeds));
  const noText = state.text === "own" && !state.own;
  byId("train").disabled = !isReady() || isBusy() || same;
  byId("again").disabled = !isReady() || !state.runs.every(isOfCard);
  byId("choices").disabled = isBusy();
  const seconds = estimatedSeconds(), wrong = state.cards.some((card) => card.error);
  let text = "Measuring how long it takes here …";
  if (noText) text = "Paste or drop a text first.";
  else if (same) text = "Trained. Change something to train again.";
  else if (wrong) text = "Not ready: the message above says what does not fit.";
  else if (Number.isNaN(seconds)) text = "How long it takes here is not known.";
  else if (seconds !== null) text = `Takes about ${durationText(seconds)} here.`;
  setText(byId("estimate"), isBusy() ? "" : text);
  setText(byId("train"), state.runs.length ? "Train again" : "Train");
}

async function begin() {
  const { kinds: all } = await planningEngine().call({ do: "kinds" });
  kinds.push(...all);
  for (const spec of kFirst) state.cards.push(makeCard(spec));
  setText(byId("link-note"), readLink());
  seeds.set(state.seeds);
  if (state.own) takeText(state.own);
  else tell("chosen");
}

// Before the other parts: showing buttons moves the focus to one that this has enabled.
on("phase", () => {
  drawAction();
  seeds.set(state.seeds);
  if (!isBusy()) replan(); // what training put off
});
setUpTexts();
setUpCards();
setUpWatch();
setUpAsk();
setUpFiles(takeText);
setUpModel();
const seeds = new Slider({ label: "seeds", help: "trainings of each attention",
  values: Array.from({ length: kMostSeeds }, (_, i) => i + 1), value: 1 }, (value) => {
  state.seeds = value;
  drawAction();
  noteChoice();
});
byId("seeds").append(seeds.element);
byId("train").addEventListener("click", () => {
  startTraining();
  byId("watch").scrollIntoView({ block: "start" });
  byId("pause").focus({ preventScroll: true });
});
byId("pause").addEventListener("click", () => state.phase === "paused" ? goOn() : pause());
byId("stop").addEventListener("click", stopTraining);
byId("again").addEventListener("click", () => {
  state.seeds = Math.min(kMostSeeds, Math.max(...state.runs.map((run) => run.records.length)) + 1);
  startTraining();
  byId("pause").focus({ preventScroll: true });
});
// So that a link to the page shows what its sender saw. Browsers allow few changes a second.
function noteChoice() {
  clearTimeout(noting);
  noting = setTimeout(() => history.replaceState(null, "", linkOfChoice()), kQuiet);
}
let noting = 0;
const kQuiet = 300; // ms without a change before the address is changed
addEventListener("hashchange", () => location.reload());
on("chosen", () => {
  if (isOtherText() && !isBusy()) stopTraining(); // old results would stand beside a new text
  noteChoice();
  drawShared();
  drawAction();
  replan();
});
on("planned", () => {
  noteChoice();
  drawShared();
  drawAction();
});
function tellBroken(text) {
  byId("broken").hidden = false;
  setText(byId("broken"), text);
}
addEventListener("error", ({ message }) => tellBroken(`A part of this page failed: ${message}`));
addEventListener("unhandledrejection", ({ reason }) =>
  tellBroken(`A part of this page failed: ${reason.message ?? reason}`));
begin().catch((error) => tellBroken(`The engine does not start: ${error.message}`));
