// One attention's answer: its text, probabilities of the next character, what each head looks at,
// and the cache at that moment.
import { lookingText, pieceText, piecesIn, smallBoard } from "../view/lookups.js";
import { kWeightShades, shadedText, shadeOf } from "../view/passage.js";
import { drawnCache } from "./caches.js";
import { markBefore } from "./controls.js";
import { elementOf, h, setText } from "./dom.js";
import { numberText, percentText, plural, shownCharacter, visible } from "../view/format.js";

const kChances = 5, kLeastChance = 5e-4; // characters with their probabilities

// Passage whose characters are shaded by weights. The weights stand for the last characters if
// there are fewer of them.
function passage(characters, weights) {
  const values = [...Array(characters.length - weights.length).fill(0), ...weights];
  return elementOf(`<p class="passage w">${shadedText(characters, values, kWeightShades)}</p>`);
}

// Parts of a cache that groups of query heads share, with what a reader calls them.
const kSharedParts = { k: "KV head", kv: "KV head", state: "KV head", latent: "latent" };

// The part of a layer that heads share: {count, word}.
function sharedPart(parts) {
  const part = parts.find(({ name, per_sequence: state }) =>
    !state && Object.hasOwn(kSharedParts, name));
  return { count: part?.heads ?? 0, word: kSharedParts[part?.name] };
}

// Figures of a layer's heads under the KV heads that they read, if those are fewer.
function headGroups(figures, { count: groups, word }, where) {
  const shares = groups > 0 && groups < figures.length && figures.length % groups === 0;
  const size = shares ? figures.length / groups : figures.length;
  return Array.from({ length: figures.length / size }, (_, group) => {
    const read = groups === 1 ? `one ${word} for all` : `${word} ${group + 1}`;
    const title = [where, shares ? read : ""].filter(Boolean).join(", ");
    const name = `group${shares ? " shared" : ""}`;
    return h("section", { class: name, "aria-label": title || "query heads" },
      title ? h("h4", {}, title) : null,
      h("div", { class: "heads" }, figures.slice(group * size, (group + 1) * size)));
  });
}

export class Look {
  // `pick(position)` is called when a character is pointed at.
  constructor(run, pick) {
    this.run = run;
    this.prompt = []; // characters
    this.steps = []; // of the engine's reply: one for each generated character
    this.read = new Map(); // by position in the prompt: what the model expects there
    this.judgement = h("span", { class: "judgement" });
    const point = ({ target }) => target.dataset.at && pick(Number(target.dataset.at));
    this.text = h("p", {
      class: "answer", tabindex: 0, role: "group", onmouseover: point, onclick: point,
      onkeydown: (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        pick(this.at + by);
      },
    });
    this.chances = h("table", { class: "chances" });
    this.cache = h("figure", { class: "filling" });
    this.looking = h("p", { class: "looking" });
    this.heads = h("div", { class: "layers", tabindex: 0, role: "region",
      "aria-label": `what the query heads of ${run.spec} look at` });
    this.error = h("p", { class: "error", role: "status" });
    this.detail = h("div", {}, h("div", { class: "pair" }, this.chances, this.cache),
      this.looking, this.heads);
    this.element = h("section", { class: `look c${run.style}`, "aria-label": run.spec },
      h("h3", {}, markBefore(run.style), run.spec, " ", this.judgement), this.text, this.error,
      this.detail);
  }

  get length() {
    return this.prompt.length + this.steps.length;
  }

  // Asks the model to continue. `expected` is the right first character, or null.
  // `seed`: of the trained model; null: the model in training. `cache`: type of its numbers.
  async ask({ prompt, tokens, temperature, expected, seed, cache }) {
    const record = this.run.records.find((each) => each.seed === seed); // none: as it is
    try {
      if (record?.diverged) throw new Error(record.diverged);
      if (record) await this.run.hold(record);
      const question = { do: "ask", prompt, tokens, temperature, cache };
      const reply = await this.run.engine.call(question);
      Object.assign(this, { prompt: [...prompt], steps: reply.steps, read: new Map(), question,
        layers: reply.cache });
      this.fail("");
      this.judge(expected, seed === null ? this.run.record.step : null);
      this.write();
    } catch (error) {
      this.steps = [];
      this.fail(error.message);
    }
  }

  fail(message) {
    setText(this.error, message);
    this.detail.hidden = this.text.hidden = message !== "";
    if (message) this.judge(null, null);
  }

  // Says whether the answer is right, and how long its model had learned if it still learns.
  judge(expected, step) {
    const right = expected !== null && this.steps[0]?.character === expected;
    this.judgement.className = `judgement ${expected === null ? "" : right ? "right" : "wrong"}`;
    const judged = expected === null || !this.steps.length ? ""
      : right ? "✓ right" : `✗ wrong, it is ${shownCharacter(expected)}`;
    const when = step === null ? "" : `after ${plural(step, "step")}`;
    setText(this.judgement, [judged, when].filter(Boolean).join(", "));
  }

  // Writes the text, one element for each character.
  write() {
    const generated = this.steps.map((step) => step.character);
    const all = [...this.prompt, ...generated];
    this.text.replaceChildren(...all.map((character, at) => h("span", {
      "data-at": at, class: at < this.prompt.length ? "given" : "new",
    }, visible(character) + (character === "\n" ? "\n" : ""))));
    this.text.setAttribute("aria-label", `${this.run.spec} writes: ${generated.join("")}. ` +
      "Arrow keys choose a character.");
  }

  // What the model computed before the character at that position was there.
  async stepAt(at) {
    if (at >= this.prompt.length) return this.steps[at - this.prompt.length] ?? null;
    if (!this.read.has(at)) {
      const prompt = this.prompt.slice(0, at).join("");
      const reply = await this.run.engine.call({ ...this.question, prompt, tokens: 1 });
      this.read.set(at, reply.steps[0]);
    }
    return this.read.get(at);
  }

  // Shows the moment before the character at that position; `scale` is that of the caches.
  async show(at, scale) {
    this.at = Math.max(1, Math.min(at, this.length - 1));
    if (!this.steps.length) return;
    const wanted = this.at;
    let step = null;
    try {
      step = await this.stepAt(wanted);
    } catch {
      return; // an engine that has ended has nothing to show
    }
    if (!step || this.at !== wanted) return; // another character was pointed at meanwhile
    for (const span of this.text.children)
      span.classList.toggle("now", Number(span.dataset.at) === wanted);
    if (!this.text.matches(":hover"))
      this.text.scrollTop = this.text.children[wanted].offsetTop - this.text.clientHeight / 2;
    this.showChances(step, wanted);
    this.showHeads(step, wanted);
    const { plan, style } = this.run;
    const { svg, text } = drawnCache(plan, this.layers,
      { tokens: wanted, scale, style, height: 96 });
    this.cache.replaceChildren(svg, h("figcaption", {}, text));
  }

  characterAt(at) {
    return at < this.prompt.length ? this.prompt[at]
      : this.steps[at - this.prompt.length].character;
  }

  showChances(step, at) {
    const written = this.characterAt(at);
    const likely = step.probabilities.slice(0, kChances).filter(({ p }) => p >= kLeastChance);
    this.chances.replaceChildren(
      h("caption", {}, at < this.prompt.length ? `expected before “${shownCharacter(written)}”`
        : "probabilities of the next character",
      step.divergence === undefined ? "" : `, ${numberText(step.divergence, 4)} nats of KL ` +
        "divergence from those of an unrounded cache"),
      ...likely.map(({ character, p }) =>
        h("tr", { class: character === written ? "chosen" : "" },
          h("th", { scope: "row" }, shownCharacter(character)),
          h("td", {}, h("span", { class: "bar", style: `width:${(100 * p).toFixed(1)}%` })),
          h("td", { class: "share" }, percentText(p)))));
  }

  showHeads(step, at) {
    const read = [...Array(at).keys()].map((place) => this.characterAt(place));
    const groups = this.run.plan.cache.layers.map(sharedPart);
    setText(this.looking, at === this.prompt.length ? this.lookingText(step, read) : "");
    if (!step.weights) {
      this.heads.replaceChildren(h("p", {}, "This attention keeps a state instead of rows: there " +
        "are no single characters that it looks at."));
      return;
    }
    const pieces = piecesIn(read.join("")), letter = read.at(-1);
    const many = step.weights.length > 1;
    this.heads.replaceChildren(...step.weights.flatMap((heads, layer) => {
      const where = many ? `Layer ${layer + 1}` : "";
      if (!heads) return [h("p", {}, `${where} keeps a state and looks at no single character.`)];
      const figures = heads.map((weights, head) =>
        this.head({ weights, head, read, pieces, letter }));
      return headGroups(figures, groups[layer], where);
    }));
  }

  // Sentence on what the heads of a lookup's answer look at.
  lookingText({ weights, character }, read) {
    const many = weights?.length > 1;
    const heads = (weights ?? []).flatMap((layer, i) => (layer ?? []).map((some, k) => ({
      name: `${many ? `layer ${i + 1}, ` : ""}query head ${k + 1}`,
      weights: [...Array(read.length - some.length).fill(0), ...some] })));
    return lookingText(read, heads, character);
  }

  head({ weights, head, read, pieces, letter }) {
    const missing = read.length - weights.length;
    let most = 0;
    weights.forEach((weight, i) => { if (weight > weights[most]) most = i; });
    const seen = read[most + missing] ?? "";
    const caption = h("figcaption", {}, `query head ${head + 1}: `,
      h("strong", {}, pieceText(pieces, letter, most + missing) ?? shownCharacter(seen)),
      `, ${percentText(weights[most], 0)}`);
    const board = pieces.length
      ? elementOf(smallBoard(pieces, letter, (i) =>
        shadeOf(weights[i - missing] ?? 0, kWeightShades))) : null;
    return h("figure", {}, caption, board, passage(read, weights));
  }
}
