// Picture of runs that were evaluated through rounded caches: which bits may be saved before heads,
// and before width?
import { byAnswers, unitOf } from "./charts.js";
import { bytesText, numberText, withInterval } from "./format.js";
import { chart } from "./plot.js";
import { estimate } from "./statistics.js";

const kCacheBits = { f32: 32, bf16: 16, f16: 16, fp8: 8, int8: 8, int4: 4, int3: 3, int2: 2,
  int1: 1 };

// What a run is judged by through a cache: right answers in percent, or loss, or `by` "kl" its
// divergence from the unrounded model; NaN where the cache is missing or numbers overflow it.
export function cacheFigure(r, run, name, by) {
  const through = run.rounded?.find(({ cache }) => cache === name);
  return (by === "kl" ? through?.change?.kl_mean
    : byAnswers(r) ? 100 * through?.answer_accuracy : through?.val_loss) ?? NaN;
}

// Loss, answers or KL divergence against bytes: a line for each attention, and one for its rotated
// caches. Null where there is nothing to draw.
export function bitsByBytes(r, { most = Infinity, by } = {}) {
  const answers = byAnswers(r) && by !== "kl", decimals = answers ? 1 : 4;
  const beyond = [], series = [];
  for (const { spec, runs, rounded = [] } of r.variants) {
    for (const turn of ["", " rotated"]) {
      const points = rounded.flatMap((cache) => {
        const bits = kCacheBits[cache.cache.replace(" rotated", "")];
        if (!bits || bits > 16 || cache.cache.endsWith(" rotated") !== (turn !== "")) return [];
        const known = runs.map((run) => cacheFigure(r, run, cache.cache, by))
          .filter(Number.isFinite);
        if (!known.length) return [];
        const { mean: y, half } = estimate(known), x = cache.kv_cache_bytes_per_token;
        const hover = `${spec} in ${cache.cache}: ` +
          `${withInterval(numberText(y, decimals), half, decimals)}, ${bytesText(x)} a token`;
        if (y > most) beyond.push(`${spec} in ${cache.cache} (${numberText(y, 2)})`);
        return y > most ? [] : [{ x, y, low: y - half, high: y + half, hover }];
      }).sort((a, b) => a.x - b.x);
      if (points.length) series.push({ name: spec + turn, style: series.length, points });
    }
  }
  if (!series.length) return null;
  const what = by === "kl" ? "KL divergence" : answers ? "Right answers" : "Loss";
  const title = `${what} against bytes of KV cache, by heads and bits`;
  const caption = "A line is one attention; its marks are caches of 16, 8, 4, 3 and 2 bits, from " +
    "right to left. Bands are 95\u00a0% intervals over seeds. Rotated caches store rows times a " +
    `Hadamard matrix.${by === "kl" ? " Divergences are from the same models unrounded." : ""}` +
    (beyond.length ? ` Beyond the picture: ${beyond.join(", ")}.` : "");
  return { title, caption, svg: chart({ kind: "lines", title, caption, series,
    xTitle: `KV cache per token at ${numberText(r.context)} tokens`,
    yTitle: answers ? "right answers, percent" : unitOf(r),
    x: { log: 2, label: bytesText } }) };
}

// Both pictures of a comparison, as far as its runs were evaluated through such caches.
export const bitsCharts = (r) => [bitsByBytes(r), bitsByBytes(r, { by: "kl" })]
  .filter((drawn) => drawn !== null);
