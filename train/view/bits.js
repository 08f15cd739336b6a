// Picture and tables of a study whose runs were evaluated through rounded caches: which bits may be
// saved before heads, and before width?
import { byAnswers, unitOf } from "./charts.js";
import { bytesText, numberText, signedText } from "./format.js";
import { chart } from "./plot.js";
import { estimate } from "./statistics.js";
import { estimateText, markdown, paired, variant } from "./tables.js";

const kBits = { f32: 32, bf16: 16, f16: 16, fp8: 8, int8: 8, int4: 4, int3: 3, int2: 2, int1: 1 };

// What a run is judged by through a cache: right answers in percent, or loss; NaN where the cache
// is missing, or where numbers overflow it.
const decimals = (r) => byAnswers(r) ? 1 : 4;
const named = (caches, name) => caches?.find(({ cache }) => cache === name);
function figure(r, run, name) {
  const through = named(run.rounded, name);
  return (byAnswers(r) ? 100 * through?.answer_accuracy : through?.val_loss) ?? NaN;
}

// One cache [attention, cache] minus another one; "" where a cache is missing.
function differenceText(r, one, than) {
  const [first, second] = [one, than].map(([spec, name]) => ({ runs: variant(r, spec).runs.map(
    (run) => ({ seed: run.seed, value: figure(r, run, name) })) }));
  const known = paired(first, second, ({ value }) => value).filter(Number.isFinite);
  return known.length ? estimateText(estimate(known), signedText, decimals(r)) : "";
}

// What rounding costs each attention: its runs through `caches` minus themselves unrounded.
export const roundingTable = (r, caches) => markdown(["attention", ...caches], r.variants
  .filter(({ rounded }) => rounded?.length).map(({ spec }) => [`\`${spec}\``,
    ...caches.map((name) => differenceText(r, [spec, name], [spec, "f32"]))]));

// Caches of about equal bytes: pairs of [attention, cache], each minus the second.
export const equalBytesTable = (r, pairs) => markdown(["cache", "KV B/token", "minus",
  "KV B/token", "difference"], pairs.map(([one, two]) => [
  ...[one, two].flatMap(([spec, name]) => [`\`${spec}\` in ${name}`,
    numberText(named(variant(r, spec).rounded, name).kv_cache_bytes_per_token)]),
  differenceText(r, one, two)]));

// Loss or answers against bytes: a line for each attention, and one for its rotated caches.
export function bitsByBytes(r, most = Infinity) {
  const beyond = [], series = [];
  for (const { spec, runs, rounded = [] } of r.variants) {
    for (const turn of ["", " rotated"]) {
      const points = rounded.flatMap((cache) => {
        const bits = kBits[cache.cache.replace(" rotated", "")];
        if (!bits || bits > 16 || cache.cache.endsWith(" rotated") !== (turn !== "")) return [];
        const known = runs.map((run) => figure(r, run, cache.cache)).filter(Number.isFinite);
        if (!known.length) return [];
        const each = estimate(known), { mean: y, half } = each, x = cache.kv_cache_bytes_per_token;
        const hover = `${spec} in ${cache.cache}: ` +
          `${estimateText(each, numberText, decimals(r))}, ${bytesText(x)} a token`;
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
  return { title, caption, svg: chart({ kind: "lines", title, caption, series,
    xTitle: `KV cache per token at ${numberText(r.context)} tokens`,
    yTitle: byAnswers(r) ? "right answers, percent" : unitOf(r),
    x: { log: 2, label: bytesText } }) };
}
