// Picture and tables of a study whose runs were evaluated through rounded caches: which bits may be
// saved before heads, and before width?
import { byAnswers, unitOf } from "./charts.js";
import { bytesText, numberText, signedText, withInterval } from "./format.js";
import { chart } from "./plot.js";
import { estimate } from "./statistics.js";
import { markdown, variant } from "./tables.js";

const kBits = { f32: 32, bf16: 16, f16: 16, fp8: 8, int8: 8, int4: 4, int3: 3, int2: 2, int1: 1 };

// What a cache of a run is judged by, seed by seed: right answers in percent, or loss.
const decimals = (r) => byAnswers(r) ? 1 : 4;
function figures(r, cache) {
  const all = byAnswers(r) ? cache.answer_accuracies.map((share) => 100 * share)
    : cache.val_losses.map((loss) => loss ?? NaN); // null: numbers overflow the cache
  return new Map(cache.seeds.map((seed, i) => [seed, all[i]]));
}
const cacheOf = (r, spec, name) => variant(r, spec).rounded?.find(({ cache }) => cache === name);

// Figures of one cache minus those of another, of the same seeds.
function paired(r, [spec, name], [than, other]) {
  const [one, two] = [cacheOf(r, spec, name), cacheOf(r, than, other)];
  if (!one || !two) return null;
  const less = figures(r, two);
  const all = [...figures(r, one)].map(([seed, value]) => value - less.get(seed));
  const known = all.filter(Number.isFinite);
  return known.length ? estimate(known) : null;
}
const differenceText = (r, e) => e === null ? ""
  : withInterval(signedText(e.mean, decimals(r)), e.half, decimals(r));

// What rounding costs each attention: its runs through `caches` minus themselves unrounded.
export const roundingTable = (r, caches) => markdown(["attention", ...caches], r.variants
  .filter(({ rounded }) => rounded?.length).map(({ spec }) => [`\`${spec}\``,
    ...caches.map((name) => differenceText(r, paired(r, [spec, name], [spec, "f32"])))]));

// Caches of about equal bytes: pairs of [attention, cache], each minus the second.
export const equalBytesTable = (r, pairs) => markdown(["cache", "KV B/token", "minus",
  "KV B/token", "difference"], pairs.map(([one, two]) => [
  ...[one, two].flatMap(([spec, name]) => [`\`${spec}\` in ${name}`,
    numberText(cacheOf(r, spec, name).kv_cache_bytes_per_token)]),
  differenceText(r, paired(r, one, two))]));

// Loss or answers against bytes: a line for each attention, and one for its rotated caches.
export function bitsByBytes(r, most = Infinity) {
  const beyond = [], series = [];
  for (const { spec, rounded = [] } of r.variants) {
    for (const turn of ["", " rotated"]) {
      const points = rounded.flatMap((cache) => {
        const bits = kBits[cache.cache.replace(" rotated", "")];
        if (!bits || bits > 16 || cache.cache.endsWith(" rotated") !== (turn !== "")) return [];
        const known = [...figures(r, cache).values()].filter(Number.isFinite);
        if (!known.length) return [];
        const { mean: y, half } = estimate(known), x = cache.kv_cache_bytes_per_token;
        const text = withInterval(numberText(y, decimals(r)), half, decimals(r));
        const hover = `${spec} in ${cache.cache}: ${text}, ${bytesText(x)} a token`;
        if (y > most) beyond.push(`${spec} in ${cache.cache} (${numberText(y, 2)})`);
        return y > most ? [] : [{ x, y, low: y - half, high: y + half, hover }];
      }).sort((a, b) => a.x - b.x);
      if (points.length) series.push({ name: spec + turn, style: series.length, points });
    }
  }
  const what = byAnswers(r) ? "Right answers" : "Loss";
  const title = `${what} against bytes of KV cache, by heads and bits`;
  const caption = "A line is one attention; its marks are caches of 16, 8, 4, 3 and 2 bits, from " +
    "right to left. Bands are 95\u00a0% intervals over seeds. Rotated caches store rows times a " +
    `Hadamard matrix.${beyond.length ? ` Beyond the picture: ${beyond.join(", ")}.` : ""}`;
  return { file: "bits", title, caption, svg: chart({ kind: "lines", title, caption, series,
    xTitle: `KV cache per token at ${numberText(r.context ?? r.config.context)} tokens`,
    yTitle: byAnswers(r) ? "right answers, percent" : unitOf(r),
    x: { log: 2, label: bytesText } }) };
}
