// KV caches of the engine's plans, drawn to scale: chosen, and while they fill.
import { areaNames, areasOf, bytesOf, cacheAreas, scaleOf } from "../view/cache_picture.js";
import { bytesText, listText, plural } from "../view/format.js";
import { elementOf } from "./dom.js";

const kPanel = 240; // width of the largest cache, units

// The engine's name of a part in words.
const wordsOf = (name) => ({ k: "keys", v: "values", kv: "keys that are also values",
  rope_key: "rotary key" })[name] ?? name.replaceAll("_", " ");

const areasAt = ({ spec, context }, layers, tokens) => areasOf(layers.map((parts) =>
  parts.map((part) => ({ ...part, name: wordsOf(part.name) }))), tokens, context, spec);

export const scaleOfPlans = (plans) =>
  scaleOf(plans.map((plan) => areasAt(plan, plan.cache.layers, plan.context)), kPanel);

// The cache `layers` after `tokens` tokens in a frame for a whole context: {svg, names, text}, the
// names of its parts and what it holds in words.
export function drawnCache(plan, layers, { tokens, scale, style, height }) {
  const areas = areasAt(plan, layers, tokens), all = areas.flat(), names = areaNames(areas);
  const rows = Math.max(...all.map((area) => Math.round(area.stored * area.rowsPerToken)));
  const text = `${plural(rows, "row")} of ${listText(names)}, ${bytesText(bytesOf(areas))}`;
  const drawn = cacheAreas(areas, { x: 0, y: 0, width: kPanel, height, scale,
    tokens: plan.context, classOf: (name) => `t${names.indexOf(name) % 4}` });
  const svg = elementOf(`<svg class="cache c${style}" role="img" aria-label="Cache to scale: ` +
    `${text}" viewBox="-1 -1 ${kPanel + 2} ${height + 2}">${drawn}</svg>`);
  return { svg, names, text };
}
