// The section that shows what the KV cache of a reader's model costs, from its config.json.
import { costCharts } from "../view/cost.js";
import { numberText } from "../view/format.js";
import { Slider } from "./controls.js";
import { byId, h, say, setText } from "./dom.js";
import { planningEngine } from "./planning.js";
import { divisors } from "./specs.js";

const kUsualTokens = 2 ** 17;
const kTokens = Array.from({ length: 15 }, (_, i) => 2 ** (10 + i));

let askedModel = null; // {config, context, kv_heads, memory}
let isRedrawing = false;

function drawModel({ text, figures }) {
  byId("model-figures").replaceChildren(...costCharts(figures).map(({ svg, caption }) => {
    const figure = h("figure", {}, h("figcaption", { class: "note" }, caption));
    figure.insertAdjacentHTML("afterbegin", svg);
    return figure;
  }));
  setText(byId("model-table"), text);
}

// Asks the engine for the newest choice until it has not changed in the meantime.
async function redrawModel() {
  if (isRedrawing) return;
  isRedrawing = true;
  try {
    for (let shown = null; shown !== askedModel;) {
      shown = askedModel;
      try {
        drawModel(await planningEngine().call({ do: "cost", ...shown }));
        setText(byId("model-error"), "");
      } catch (error) {
        setText(byId("model-error"), error.message);
      }
      byId("model-error").hidden = !byId("model-error").textContent;
    }
  } finally {
    isRedrawing = false;
  }
}

function changeModel(part) {
  askedModel = { ...askedModel, ...part };
  return redrawModel();
}

// Shows the model whose config.json has this text. Throws the engine's refusal.
export async function showModel(config, name) {
  const own = await planningEngine().call({ do: "cost", config, context: kUsualTokens });
  const context = own.context || kUsualTokens;
  askedModel = { config, context, memory: byId("model-memory").value };
  const ofContext = new Slider({ label: "context", help: "tokens of the sequence",
    values: [...new Set([...kTokens, context])].sort((a, b) => a - b), value: context,
    text: (tokens) => numberText(tokens) }, (tokens) => changeModel({ context: tokens }));
  const ofHeads = own.kv_heads > 0 ? [new Slider({ label: "KV heads",
    help: "in the layers that have the most", values: [...new Set([...divisors(own.heads),
      own.kv_heads])].sort((a, b) => a - b), value: own.kv_heads },
  (heads) => changeModel({ kv_heads: heads }))] : [];
  byId("model-sliders").replaceChildren(...[ofContext, ...ofHeads].map(({ element }) => element));
  byId("model-shown").hidden = false;
  await redrawModel();
  byId("model").scrollIntoView();
  say(`The cache of ${name} is shown.`);
}

export function setUpModel() {
  byId("model-memory").addEventListener("input", ({ target }) => {
    if (askedModel) changeModel({ memory: target.value.trim() });
  });
  byId("model-file").addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    target.value = "";
    if (!file) return;
    const error = byId("model-error");
    try {
      await showModel(await file.text(), file.name);
    } catch (refused) {
      setText(error, `${file.name}: ${refused.message}`);
      error.hidden = false;
    }
  });
}
