// KV caches as areas, to scale. Layers stand side by side; a layer's width is the numbers that it
// stores per token, its height the tokens that it stores. So equal areas are equal bytes.
import { colourOf, escaped, legend, path, picture, shortName, textAt, titled,
  xml } from "./plot.js";
import { bytesText, numberText, plural } from "./format.js";

const kGap = 4; // between layers
const kLeast = 2; // height or width of an area that would be too flat or narrow to be seen
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

// Widths of a layer's areas. The widest one gives room to those that would be too narrow to be seen,
// such as a rotary key beside a latent.
function widthsOf(layer, scale) {
  const widths = layer.map(({ perToken }) => perToken * scale), most = Math.max(...widths);
  const wanted = widths.map((wide) => wide > 0 ? Math.max(wide, kLeast) : 0);
  const given = wanted.reduce((sum, wide, i) => sum + wide - widths[i], 0);
  if (given > most / 2) return widths; // all of the layer is narrow
  wanted[widths.indexOf(most)] -= given;
  return wanted;
}

// The areas of one cache in frames as high as `tokens` tokens; `classOf(name)` colours them.
export function cacheAreas(layers, { x, y, width, height, scale, tokens, classOf }) {
  let out = "";
  for (const layer of layers) {
    const widths = widthsOf(layer, scale), all = widths.reduce((sum, wide) => sum + wide, 0);
    if (all > 0)
      out += xml`<rect class="frame" x="${x}" y="${y}" width="${all}" height="${height}"/>\n`;
    for (const [k, { name, heads, stored, rowsPerToken, hover }] of layer.entries()) {
      const wide = widths[k], head = wide / heads;
      const high = stored > 0 ? Math.max(kLeast, Math.min(stored / tokens, 1) * height) : 0;
      if (wide <= 0) continue;
      out += area(classOf(name), x, y, wide, high, hover);
      for (let i = 1; i < heads && head >= 3; ++i)
        out += path("edge", xml`M${x + head * i} ${y}v${high}`);
      const row = height / tokens / Math.min(rowsPerToken, 1);
      for (let down = row; tokens <= kRuled && rowsPerToken > 0 && down < high - 0.5; down += row)
        out += path("rule", xml`M${x} ${y + down}h${wide}`);
      x += wide;
    }
    x += gapOf(layers, width);
  }
  return out;
}
const area = (name, x, y, width, height, hover) => xml`<rect class="area ${name}" x="${x}" y="${
  y}" width="${width}" height="${height}">${titled(hover)}</rect>\n`;

// Areas of a variant's `cache` in results.json at `tokens` tokens. A state, which has no rows, is
// spread over `context` tokens. A number of a block takes its `bytes`, or kBytes, which widen the
// area.
export const areasOf = (cache, tokens, context, spec) => cache.map((layer, i) => layer.map(({ name,
  heads, width, window, block, per_sequence: state, bytes: each = kBytes }) => {
  const rows = Math.floor(Math.min(window || tokens, tokens) / (block || 1));
  const wide = heads * width * each / kBytes, bytes = kBytes * wide * (state ? 1 : rows);
  const perToken = wide / (state ? context : block || 1);
  return { name, heads, perToken, stored: perToken ? bytes / kBytes / perToken : 0,
    rowsPerToken: state ? 0 : 1 / (block || 1), bytes,
    hover: `${spec}, layer ${i + 1}, ${name}: ${plural(heads, "head")} of ${numberText(width)} ` +
      `numbers, ${state ? "of the sequence" : plural(rows, "row")}, ${bytesText(bytes)}` };
}));
export const bytesOf = (layers) => layers.flat().reduce((sum, { bytes }) => sum + bytes, 0);

// Caches [{spec, cache}] of results.json in one picture, at each of one or two `contexts`.
export function cachesPicture(variants, { title, caption, contexts }) {
  const kTop = 62, kHeading = 30, [context] = contexts;
  const panel = contexts.length > 1 ? 236 : 492, lefts = [14, 14 + panel + 20];
  const high = variants.length > 8 ? 36 : variants.length > 4 ? 48 : 64;
  const drawn = variants.map(({ spec, cache }) =>
    ({ spec, at: contexts.map((tokens) => areasOf(cache, tokens, context, spec)) }));
  const scale = scaleOf(drawn.map(({ at }) => at[0]), panel);
  const names = areaNames(drawn.flatMap(({ at }) => at[0]));
  const classOf = (name) => colourOf(1 + names.indexOf(name)); // black is for borders
  let out = contexts.map((tokens, i) =>
    textAt(lefts[i], kTop - 8, `at ${numberText(tokens)} tokens`, "start", "quiet")).join("");
  drawn.forEach(({ spec, at }, k) => at.forEach((layers, i) => {
    const y = kTop + k * (kHeading + high);
    const name = i ? "<tspan>"
      : `<tspan class="label">${escaped(shortName(spec))}</tspan><tspan dx="9">`;
    out += xml`<text class="ink" x="${lefts[i]}" y="${y + 23}">${name}${
      bytesText(bytesOf(layers))}</tspan></text>\n` + cacheAreas(layers, { x: lefts[i],
      y: y + kHeading, width: panel, height: high, scale, tokens: contexts[i], classOf });
  }));
  const bottom = kTop + drawn.length * (kHeading + high);
  const parts = legend(names.map((name) => ({ name })), bottom + 22, 520, ({ name }, x, y) =>
    area(classOf(name), x - 6, y - 6, 12, 12, name));
  return picture({ title, caption, height: bottom + 24 + parts.height }, out + parts.out);
}
