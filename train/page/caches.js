// KV caches of the engine's plans, drawn to scale: chosen, and while they fill.
import { areaNames, cacheAreas, kBytes, scaleOf } from "../view/cache_picture.js";
import { bytesText, numberText } from "../view/format.js";
import { s } from "./dom.js";

const kPanel = 240; // width of the largest cache, units

// The engine's name of a part in words.
const wordsOf = (name) => ({ k: "keys", v: "values", kv: "keys that are also values" })[name] ??
  name.replaceAll("_", " ");

// "layer 1, keys: 2 heads of 2 numbers per token, 256 B"
function describePart(part, layer) {
  const heads = part.heads ?? 1, count = numberText(part.numbers / heads, 0);
  const each = heads > 1 ? `${heads} heads of ${count} numbers` : `${count} numbers`;
  const per = part.rows_per_token > 0
    ? part.rows_per_token < 1 ? `every ${Math.round(1 / part.rows_per_token)} tokens` : "per token"
    : "of the sequence";
  return `layer ${layer + 1}, ${wordsOf(part.name)}: ${each} ${per}, ${bytesText(part.bytes)}`;
}

// Layers of a plan's cache as areas of view/cache_picture.js; `bytesOf(part, layer)` is what a part
// stores. A state, which has no rows, is spread over the context.
export const areasOfPlan = (plan, bytesOf = (part) => part.bytes) =>
  plan.cache.layers.map(({ layer, parts }, at) => parts.map((part) => {
    const perToken = part.rows_per_token > 0 ? part.numbers * part.rows_per_token
      : part.numbers / plan.context;
    return { name: wordsOf(part.name), heads: part.heads ?? 1, perToken,
      stored: perToken ? bytesOf(part, at) / kBytes / perToken : 0,
      rowsPerToken: part.rows_per_token, hover: describePart(part, layer) };
  }));

export const scaleOfPlans = (plans) => scaleOf(plans.map((plan) => areasOfPlan(plan)), kPanel);

// Picture in a frame for a whole context.
function drawnCache(plan, layers, { scale, style, height, label }) {
  const names = areaNames(layers), classOf = (name) => `t${names.indexOf(name) % 4}`;
  const svg = s("svg", { viewBox: `-1 -1 ${kPanel + 2} ${height + 2}`, class: `cache c${style}`,
    role: "img", "aria-label": label });
  svg.innerHTML = cacheAreas(layers,
    { x: 0, y: 0, width: kPanel, height, scale, tokens: plan.context, classOf });
  return svg;
}

// The cache that a plan keeps of a whole context.
export function chosenCache(plan, scale, style) {
  const label = `Cache to scale: ${plan.cache.layers.length} layers, ` +
    `${bytesText(plan.cache.bytes_per_token)} per token`;
  return drawnCache(plan, areasOfPlan(plan), { scale, style, height: 64, label });
}

// The cache while it fills: `now` is the engine's {rows, bytes, layers: [{rows, bytes}]}. A layer's
// bytes are shared out among its parts as in the full cache.
export function fillingCache(plan, now, scale, style) {
  const bytesOf = (part, at) => {
    const all = plan.cache.layers[at].parts.reduce((sum, each) => sum + each.bytes, 0);
    return all > 0 ? (now.layers[at]?.bytes ?? 0) * part.bytes / all : 0;
  };
  const label = `Cache: ${now.rows} rows, ${bytesText(now.bytes)}`;
  return drawnCache(plan, areasOfPlan(plan, bytesOf), { scale, style, height: 96, label });
}
