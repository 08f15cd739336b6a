// The page: chooses attentions and a text, trains, asks. This file wires its parts.
import { setUpAsk } from "./ask.js";
import { setUpCards } from "./cards.js";
import { Sliders } from "./controls.js";
import { button, byId, h, noteFiles, on, onFiles, setText, tell } from "./dom.js";
import { openBuiltIn, setUpFiles } from "./files.js";
import { setUpModel } from "./model_cost.js";
import { durationText, numberText, plural } from "../view/format.js";
import { isLinked, linkOfChoice, presets, readLink, takeAsked } from "./link.js";
import { estimatedSeconds, planningEngine, replan } from "./planning.js";
import { kinds, upTo } from "./specs.js";
import { commonValue, isBusy, isOfCard, isOtherText, isReady, keyOf, kMostSeeds, makeCard,
  setOwnText, shownSettings, state } from "./state.js";
import { kLongestText, texts } from "./texts.js";
import { goOn, marksLearned, pause, startTraining, stopTraining } from "./training.js";
import { setUpWatch } from "./watch.js";

const kFirst = ["gqa4x8", "mqax32"]; // of a link that names none
let opening = ""; // address of what the page opens with

function setUpTexts() {
  byId("presets").append(...presets.map(({ name, asked }) => button(name, () => {
    takeAsked(asked);
    tell("chosen");
  })));
  byId("texts").append(...Object.entries(texts).map(([name, { name: shown, what }]) =>
    h("label", { class: "text-choice" },
      h("input", { type: "radio", name: "text", value: name, onchange: () => {
        state.text = name;
        tell("chosen");
      } }),
      h("strong", {}, shown), h("span", {}, what))));
  byId("own").addEventListener("input", () => takeText(byId("own").value));
  onFiles("own-file", async ([file]) => {
    takeText(await file.text(), file.name);
    noteFiles("");
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

const sliders = new Sliders(byId("shared"), (name, value) => {
  state.changed[state.text][name] = value;
  tell("chosen");
});
const seeds = new Sliders(byId("seeds"), (_, value) => {
  state.seeds = value;
  drawAction();
  noteChoice();
});

function drawShared() {
  for (const input of document.querySelectorAll("input[name=text]"))
    input.checked = input.value === state.text;
  byId("own-text").hidden = state.text !== "own";
  sliders.show(shownSettings().map((each) => ({ ...each, value: commonValue(each.name) }))
    .filter(({ value }) => value !== undefined));
}

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
  else if (seconds !== null) {
    text = `Takes about ${durationText(seconds)} here` +
      (state.cards.every(marksLearned) ? ", less if they learn sooner." : ".");
  }
  setText(byId("estimate"), isBusy() ? "" : text);
  const isAgain = state.runs.length > 0 && state.runs !== state.builtIn;
  setText(byId("train"), isAgain ? "Train again" : "Train");
  seeds.show([{ name: "seeds", label: "seeds", help: "trainings of each attention",
    values: upTo(kMostSeeds), value: state.seeds }]);
}

async function begin() {
  const { kinds: all } = await planningEngine().call({ do: "kinds" });
  kinds.push(...all);
  if (location.hash) {
    for (const spec of kFirst) state.cards.push(makeCard(spec));
    setText(byId("link-note"), readLink());
    if (state.own) takeText(state.own);
    else tell("chosen");
  } else {
    await openBuiltIn();
    opening = linkOfChoice();
  }
  byId("choose").hidden = false;
  byId("starting").remove();
}

// Before the other parts: showing buttons moves the focus to one that this has enabled.
on("phase", () => {
  drawAction();
  if (!isBusy()) replan(); // what training put off
});
setUpTexts();
setUpCards();
setUpWatch();
setUpAsk();
setUpFiles(takeText);
setUpModel();
byId("train").addEventListener("click", () => {
  startTraining();
  byId("watch").scrollIntoView({ block: "start" });
  byId("pause").focus({ preventScroll: true });
});
byId("to-ask").addEventListener("click", () => byId("ask").scrollIntoView());
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
  noting = setTimeout(() => {
    const link = linkOfChoice(), [page] = location.href.split("#");
    history.replaceState(null, "", link === opening ? page : link);
  }, kQuiet);
}
let noting = 0;
const kQuiet = 300; // ms without a change before the address is changed
addEventListener("hashchange", () => location.reload());
on("chosen", () => {
  if (isOtherText() && !isBusy()) stopTraining(); // old results would stand beside a new text
});
on("chosen planned", () => {
  noteChoice();
  drawShared();
  drawAction();
});
on("chosen", replan);
const tellBroken = (text) => setText(byId("broken"), text);
addEventListener("error", ({ message }) => tellBroken(`A part of this page failed: ${message}`));
addEventListener("unhandledrejection", ({ reason }) =>
  tellBroken(`A part of this page failed: ${reason.message ?? reason}`));
begin().catch((error) => tellBroken(`The engine does not start: ${error.message}`));
