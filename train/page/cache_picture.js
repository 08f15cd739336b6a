// KV caches as areas, to scale. Layers stand side by side; a layer's width is the numbers that it
// keeps per token, its height the tokens that it keeps. So equal areas are equal bytes.
import { s } from "./dom.js";
import { bytesText, numberText } from "./format.js";

export const kPanel = 240; // width of the largest cache, units
const kGap = 4; // between layers
const kLeast = 2; // height of a part that would be too flat to be seen
const kRuled = 40; // tokens up to which rows are ruled
const kBytes = 4; // of a number

// The engine's name of a part in words.
const wordsOf = (name) => ({ k: "keys", v: "values", kv: "keys that are also values" })[name] ??
  name.replaceAll("_", " ");

// Parts of each layer of a plan's cache: {name, heads, tokenNumbers, bytes}, tokenNumbers per
// token. A state, which has no rows, is spread over the context.
export function layersOf(plan) {
  return plan.cache.layers.map(({ layer, parts }) => ({
    layer,
    parts: parts.map((part) => ({
      ...part,
      name: wordsOf(part.name),
      heads: part.heads ?? 1,
      tokenNumbers: part.rows_per_token > 0 ? part.numbers * part.rows_per_token
        : part.numbers / plan.context,
    })),
  }));
}

const widthOf = (layer) => layer.parts.reduce((sum, part) => sum + part.tokenNumbers, 0);
const gapOf = (count) => Math.min(kGap, kPanel / 4 / count);

// Units per number so that the widest of these plans' caches fills the panel.
export function scaleOf(plans) {
  return Math.min(...plans.map((plan) => {
    const layers = layersOf(plan);
    const numbers = layers.reduce((sum, layer) => sum + widthOf(layer), 0);
    return (kPanel - gapOf(layers.length) * (layers.length - 1)) / Math.max(numbers, 1e-9);
  }));
}

// Names of parts in their order, for tints and the legend.
export function partNames(plan) {
  return [...new Set(layersOf(plan).flatMap((layer) => layer.parts.map((part) => part.name)))];
}

// "layer 1, keys: 2 heads of 2 numbers per token, 256 B"
function describePart(part, layer) {
  const count = numberText(part.numbers / part.heads, 0);
  const each = part.heads > 1 ? `${part.heads} heads of ${count} numbers` : `${count} numbers`;
  const per = part.rows_per_token > 0
    ? part.rows_per_token < 1 ? `every ${Math.round(1 / part.rows_per_token)} tokens` : "per token"
    : "of the sequence";
  return `layer ${layer + 1}, ${part.name}: ${each} ${per}, ${bytesText(part.bytes)}`;
}

// Picture of a cache in a frame for a whole context. `bytesOf(part, layer)` is what a part holds.
function picture(plan, { scale, style, height, label, bytesOf }) {
  const tokens = plan.context;
  const layers = layersOf(plan), names = partNames(plan), gap = gapOf(layers.length);
  const svg = s("svg", { viewBox: `-1 -1 ${kPanel + 2} ${height + 2}`, class: `cache c${style}`,
    role: "img", "aria-label": label });
  let x = 0;
  layers.forEach((layer, at) => {
    const width = widthOf(layer) * scale, left = x;
    for (const part of layer.parts) {
      const wide = part.tokenNumbers * scale, bytes = bytesOf(part, at);
      const held = bytes / kBytes / part.tokenNumbers; // tokens
      const high = bytes > 0 ? Math.max(kLeast, Math.min(held / tokens, 1) * height) : 0;
      const tint = `t${names.indexOf(part.name) % 4}`;
      svg.append(s("rect", { class: `area ${tint}`, x, y: 0, width: wide, height: high },
        s("title", {}, describePart(part, layer.layer))));
      const head = wide / part.heads;
      for (let i = 1; i < part.heads && head >= 3; ++i)
        svg.append(s("path", { class: "edge", d: `M${x + head * i} 0v${high}` }));
      if (tokens <= kRuled && part.rows_per_token > 0) {
        const row = height / tokens / Math.min(part.rows_per_token, 1);
        for (let y = row; y < high - 0.5; y += row)
          svg.append(s("path", { class: "rule", d: `M${x} ${y}h${wide}` }));
      }
      x += wide;
    }
    if (width > 0)
      svg.append(s("rect", { class: "frame", x: left, y: 0, width, height }));
    x += gap;
  });
  return svg;
}

// The cache that a plan keeps of a whole context.
export function chosenCache(plan, scale, style) {
  const label = `Cache to scale: ${plan.cache.layers.length} layers, ` +
    `${bytesText(plan.cache.bytes_per_token)} per token`;
  return picture(plan, { scale, style, height: 64, label, bytesOf: (part) => part.bytes });
}

// The cache while it fills: `now` is the engine's {rows, bytes, layers: [{rows, bytes}]}. A layer's
// bytes are shared out among its parts as in the full cache.
export function fillingCache(plan, now, scale, style) {
  const layers = layersOf(plan);
  const bytesOf = (part, at) => {
    const all = layers[at].parts.reduce((sum, each) => sum + each.bytes, 0);
    return all > 0 ? (now.layers[at]?.bytes ?? 0) * part.bytes / all : 0;
  };
  const label = `Cache: ${now.rows} rows, ${bytesText(now.bytes)}`;
  return picture(plan, { scale, style, height: 96, label, bytesOf });
}
