// The section that shows what the KV cache of a reader's model costs, from its config.json.
import { costCharts } from "../view/cost.js";
import { numberText } from "../view/format.js";
import { Sliders } from "./controls.js";
import { byId, elementOf, h, oneAtATime, say, setText } from "./dom.js";
import { planningEngine } from "./planning.js";
import { divisors } from "./specs.js";

const kUsualTokens = 2 ** 17;
const kTokens = Array.from({ length: 15 }, (_, i) => 2 ** (10 + i));

let askedModel = null; // {config, context, kv_heads, memory}
let sliders = null;

function drawModel({ text, figures }) {
  byId("model-figures").replaceChildren(...costCharts(figures).map(({ svg, caption }) =>
    h("figure", {}, elementOf(svg), h("figcaption", { class: "note" }, caption))));
  setText(byId("model-table"), text);
}

const redraw = oneAtATime(async () => {
  let refusal = "";
  await planningEngine().call({ do: "cost", ...askedModel }).then(drawModel)
    .catch(({ message }) => { refusal = message; });
  setText(byId("model-error"), refusal);
});

function changeModel(part) {
  askedModel = { ...askedModel, ...part };
  return redraw();
}

// Shows the model whose config.json has this text. Throws the engine's refusal.
export async function showModel(config, name) {
  const own = await planningEngine().call({ do: "cost", config, context: kUsualTokens });
  const context = own.context || kUsualTokens;
  sliders.show([{ name: "context", label: "context", help: "tokens of the sequence",
    values: kTokens, value: context, text: (tokens) => numberText(tokens) },
  { name: "kv_heads", label: "KV heads", help: "in the layers that have the most",
    values: divisors(own.heads), value: own.kv_heads }].filter(({ value }) => value > 0));
  byId("model-shown").hidden = false;
  askedModel = null;
  await changeModel({ config, context, memory: byId("model-memory").value });
  byId("model").scrollIntoView();
  say(`The cache of ${name} is shown.`);
}

export function setUpModel() {
  sliders = new Sliders(byId("model-sliders"), (name, value) => changeModel({ [name]: value }));
  byId("model-memory").addEventListener("input", ({ target }) => {
    if (askedModel) changeModel({ memory: target.value.trim() });
  });
}
