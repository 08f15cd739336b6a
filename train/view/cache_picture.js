// KV caches as areas, to scale. Layers stand side by side; a layer's width is the numbers that it
// stores per token, its height the tokens that it stores. So equal areas are equal bytes.
import { colourOf, decimal, escaped, legend, path, picture, shortName, textAt } from "./plot.js";
import { bytesText, numberText, plural } from "./format.js";

const kGap = 4; // between layers
const kLeast = 2; // height of an area that would be too flat to be seen
const kRuled = 40; // tokens up to which rows are ruled
export const kBytes = 4; // of a number

// A cache is a list of layers, a layer a list of areas: {name, heads, perToken, stored,
// rowsPerToken, hover}: numbers per token, tokens stored, rows per token (0 for a state).
const layerWidth = (layer) => layer.reduce((sum, area) => sum + area.perToken, 0);
const gapOf = (layers, width) => Math.min(kGap, width / 4 / layers.length);

// Units per number so that the widest of the caches fills `width`.
export function scaleOf(caches, width) {
  return Math.min(...caches.map((layers) => {
    const numbers = layers.reduce((sum, layer) => sum + layerWidth(layer), 0);
    return (width - gapOf(layers, width) * (layers.length - 1)) / Math.max(numbers, 1e-9);
  }));
}

export const areaNames = (layers) => [...new Set(layers.flat().map((area) => area.name))];

// The areas of one cache in frames as high as `tokens` tokens; `classOf(name)` colours them.
export function cacheAreas(layers, { x, y, width, height, scale, tokens, classOf }) {
  let out = "";
  for (const layer of layers) {
    const left = x;
    for (const { name, heads, perToken, stored, rowsPerToken, hover } of layer) {
      const wide = perToken * scale, head = wide / heads;
      const high = stored > 0 ? Math.max(kLeast, Math.min(stored / tokens, 1) * height) : 0;
      if (wide <= 0) continue;
      out += `<rect class="area ${classOf(name)}" x="${decimal(x)}" y="${decimal(y)}" ` +
        `width="${decimal(wide)}" ` +
        `height="${decimal(high)}"><title>${escaped(hover)}</title></rect>\n`;
      for (let i = 1; i < heads && head >= 3; ++i) out += path("edge",
        `M${decimal(x + head * i)} ${decimal(y)}v${decimal(high)}`);
      const row = height / tokens / Math.min(rowsPerToken, 1);
      for (let down = row; tokens <= kRuled && rowsPerToken > 0 && down < high - 0.5; down += row)
        out += path("rule", `M${decimal(x)} ${decimal(y + down)}h${decimal(wide)}`);
      x += wide;
    }
    if (x > left)
      out += `<rect class="frame" x="${decimal(left)}" y="${decimal(y)}" ` +
        `width="${decimal(x - left)}" height="${decimal(height)}"/>\n`;
    x += gapOf(layers, width);
  }
  return out;
}

// Areas of a variant's `cache` in results.json at `tokens` tokens. A state, which has no rows, is
// spread over `context` tokens. A number of a block takes its `bytes`, or kBytes, which widen the
// area.
export const areasOf = (cache, tokens, context, spec) => cache.map((layer, i) =>
  layer.map((part) => {
  const { name, heads, width, window, block, per_sequence: state, bytes: each = kBytes } = part;
  const rows = Math.floor(Math.min(window || tokens, tokens) / (block || 1));
  const wide = heads * width * each / kBytes, bytes = kBytes * wide * (state ? 1 : rows);
  const perToken = wide / (state ? context : block || 1);
  return { name, heads, perToken, stored: perToken ? bytes / kBytes / perToken : 0,
    rowsPerToken: state ? 0 : 1 / (block || 1), bytes,
    hover: `${spec}, layer ${i + 1}, ${name}: ${plural(heads, "head")} of ${numberText(width)} ` +
      `numbers, ` +
      `${state ? "of the sequence" : plural(rows, "row")}, ${bytesText(bytes)}` };
}));

// Caches [{spec, cache}] of results.json in one picture, at each of one or two `contexts`.
export function cachesPicture(variants, { title, caption, contexts }) {
  const kTop = 62, kHeading = 30, [context] = contexts;
  const panel = contexts.length > 1 ? 236 : 492, lefts = [14, 14 + panel + 20];
  const high = variants.length > 8 ? 36 : variants.length > 4 ? 48 : 64;
  const at1 = variants.map(({ cache, spec }) => areasOf(cache, context, context, spec));
  const scale = scaleOf(at1, panel), names = [...new Set(at1.flatMap(areaNames))];
  const classOf = (name) => colourOf(1 + names.indexOf(name)); // black is for borders
  let out = "", y = kTop;
  for (const [i, tokens] of contexts.entries())
    out += textAt(lefts[i], kTop - 8, `at ${numberText(tokens)} tokens`, "start", "quiet");
  for (const { spec, cache } of variants) {
    for (const [i, tokens] of contexts.entries()) {
      const layers = areasOf(cache, tokens, context, spec), bytes = layers.flat().reduce((sum, a) =>
        sum + a.bytes, 0);
      out += `<text class="ink" x="${lefts[i]}" y="${decimal(y + 23)}">` +
        `${i ? "" : `<tspan class="label">${escaped(shortName(spec))}</tspan>`}` +
        `<tspan${i ? "" : ' dx="9"'}>${bytesText(bytes)}</tspan></text>\n` +
        cacheAreas(layers, { x: lefts[i], y: y + kHeading, width: panel, height: high, scale,
          tokens, classOf });
    }
    y += kHeading + high;
  }
  const parts = legend(names.map((name) => ({ name })), y + 22, 520, ({ name }, x, down) =>
    `<rect class="area ${classOf(name)}" x="${decimal(x - 6)}" y="${decimal(down - 6)}" ` +
      `width="12" height="12">` +
    `<title>${escaped(name)}</title></rect>\n`);
  return picture({ title, caption, height: y + 24 + parts.height }, out + parts.out);
}
