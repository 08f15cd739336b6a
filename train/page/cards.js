// The cards of the first section: each chooses an attention and shows the cache that it keeps.
import { drawnCache, scaleOfPlans } from "./caches.js";
import { markBefore, Sliders } from "./controls.js";
import { button, byId, h, on, setText, tell, Views } from "./dom.js";
import { bytesText, numberText, plural } from "../view/format.js";
import { changeChoice, firstChoice, kindOf, kinds, slidersOf } from "./specs.js";
import { kLeastCards, kMostCards, makeCard, nameOf, sharedSettings, state } from "./state.js";

const kOwn = "written"; // choice of the list of kinds for a text of the reader's own
const kNext = ["mqa", "gqa", "mla", "mfa", "gta"]; // kinds that a new card tries
const views = new Views(byId("cards"), (card) => new CardView(card));

// Settings of a card that is planned; before any is, those that the cards share.
const plannedSettings = () =>
  state.cards.find((card) => card.plan)?.plan.settings ?? sharedSettings();

// The engine's sentence on a kind, with the values of the settings that it names.
const summaryOf = ({ summary }, settings) =>
  summary.replace(/`([^`]+)`/g, (quoted, name) => settings[name] ?? name);

class CardView {
  constructor(card) {
    this.card = card;
    const options = kinds.map(({ name }) => h("option", { value: name }, name));
    this.kind = h("select", { "aria-label": "attention", onchange: () => this.name() },
      options, h("option", { value: kOwn }, "as written …"));
    this.remove = button("×", () => removeCard(card), { class: "plain",
      title: "remove this attention", "aria-label": "remove this attention" });
    this.what = h("p", { class: "what" });
    this.written = h("input", {
      type: "text", spellcheck: "false",
      "aria-label": "attention as text, for example 3*gqa2@8/gqa2",
      onchange: () => {
        const text = this.written.value.trim();
        if (text) card.choice.own = text;
        else this.written.value = card.choice.own;
        tell("chosen");
      },
    });
    this.places = h("div", { class: "sliders" });
    this.sliders = new Sliders(this.places, (name, value) => {
      changeChoice(card.choice, name, value, card.plan.settings);
      tell("chosen");
    });
    this.picture = h("div", { class: "picture" });
    this.bytes = h("p", { class: "bytes" });
    this.legend = h("p", { class: "legend" });
    this.notes = h("p", { class: "note" });
    this.error = h("p", { class: "error", role: "status" });
    this.element = h("section", { class: `card c${card.style}` },
      h("div", { class: "name" }, markBefore(card.style), this.kind, this.remove),
      this.what, this.written, this.places, this.picture, this.legend, this.bytes,
      this.notes, this.error);
    this.update();
  }

  // Takes the kind that was picked from the list.
  name() {
    const { card } = this, name = this.kind.value;
    if (name === kOwn) card.choice = { own: nameOf(card), written: true };
    else card.choice = firstChoice(name, card.plan?.settings ?? plannedSettings());
    tell("chosen");
  }

  update() {
    const { card } = this, { choice, plan } = card, kind = kindOf(choice);
    const settings = { ...plan?.settings, ...choice.given };
    this.kind.value = choice.kind ?? kOwn;
    this.element.setAttribute("aria-label", `attention ${nameOf(card)}`);
    setText(this.what, choice.written ? "An attention in the program’s own words."
      : kind ? summaryOf(kind, settings) : "");
    this.written.hidden = !choice.written;
    if (choice.own && document.activeElement !== this.written) this.written.value = choice.own;
    this.remove.hidden = state.cards.length <= kLeastCards;
    setText(this.error, card.error === errorOfAll() ? "" : card.error);
    this.element.classList.toggle("wrong", card.error !== "");
    for (const old of [this.picture, this.legend, this.bytes]) old.hidden = card.error !== "";
    setText(this.notes, card.error ? "" : (plan?.notes ?? []).join(" "));
    if (plan) this.sliders.show(slidersOf(choice, settings));
  }

  draw(scale) {
    const { plan, style, error } = this.card;
    if (!plan || error) return;
    const { svg, names } = drawnCache(plan, plan.cache.layers,
      { tokens: plan.context, scale, style, height: 64 });
    this.picture.replaceChildren(svg);
    this.legend.replaceChildren(...names.flatMap((name, i) =>
      [h("i", { class: `t${i % 4}` }), `${name} `]),
    h("code", { title: "name of this attention in charts and in the program" }, plan.spec));
    const { bytes_per_token: token, bytes_at_context: whole } = plan.cache;
    this.bytes.replaceChildren(h("strong", {}, bytesText(token)), " per token, ",
      `${bytesText(whole)} for ${plural(plan.context, "token")}. `,
      h("span", {}, `${numberText(plan.parameters)} parameters`));
  }
}

// The error that all cards have, such as a text that is too short; else "".
function errorOfAll() {
  const [first, ...others] = state.cards.map((card) => card.error);
  return first && others.every((error) => error === first) ? first : "";
}

function removeCard(card) {
  state.cards.splice(state.cards.indexOf(card), 1);
  tell("chosen");
  byId("add").focus();
}

function addCard() {
  const used = state.cards.map((card) => card.choice.kind);
  const name = kNext.find((each) => !used.includes(each) && kinds.some((k) => k.name === each));
  const card = makeCard("");
  card.choice = firstChoice(name ?? "gqa", plannedSettings());
  state.cards.push(card);
  tell("chosen");
  views.all.get(card).kind.focus();
}

function drawCards() {
  for (const view of views.show(state.cards)) view.update();
  setText(byId("error-of-all"), errorOfAll());
  byId("add").hidden = state.cards.length >= kMostCards;
}

function drawCaches() {
  drawCards();
  const good = state.cards.filter((card) => card.plan && !card.error);
  if (!good.length) return;
  const scale = scaleOfPlans(good.map((card) => card.plan));
  for (const card of good) views.all.get(card).draw(scale);
}

export function setUpCards() {
  byId("add").addEventListener("click", addCard);
  on("chosen", drawCards);
  on("planned", drawCaches);
}
