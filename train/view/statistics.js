// Statistics of the pictures and tables.
import { mean } from "./format.js";

// Share of Student's t with `df` degrees of freedom within ±t (Abramowitz and Stegun, 26.7.3).
function shareWithin(t, df) {
  const angle = Math.atan(t / Math.sqrt(df)), cosine = Math.cos(angle), odd = df % 2;
  let sum = 0, term = odd ? cosine : 1;
  for (let k = odd; k <= df - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * (k + 1) / (k + 2);
  }
  return odd ? 2 / Math.PI * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
}

// The t within whose ± the share 1 - `error` of Student's t lies.
export function studentT(error, df) {
  let low = 0, high = 1000;
  for (let i = 0; i < 60; ++i) {
    const middle = (low + high) / 2;
    if (shareWithin(middle, df) < 1 - error) low = middle;
    else high = middle;
  }
  return high;
}

// Mean of values of seeds, {mean, half}: half is that of the 95 % interval, NaN of one value.
export function estimate(values) {
  const middle = mean(values), df = values.length - 1;
  const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / df;
  return { mean: middle, half: df > 0 ? studentT(0.05, df) * Math.sqrt(variance / values.length)
    : NaN };
}

// Half widths of costs in losses, if each loss is a sum of its attention's part, its seed's and an
// error whose variance is the same for all. Controls, which scatter as widely as they fail, have no
// part in it. Returns a function of the number of seeds of a cost: {each, all}, of one 95 % interval
// and of all attentions' at once (Bonferroni); NaN with one seed.
export function pooledHalves(r) {
  const isControl = (v) => r.verdict.controls?.includes(v.spec);
  const losses = r.variants.filter((v) => v.runs.length > 0 && !isControl(v)).map((v) =>
    r.common_seeds.map((seed) => v.runs.find((run) => run.seed === seed).val_loss));
  const ofSeed = r.common_seeds.map((_, i) => mean(losses.map((row) => row[i])));
  const all = mean(ofSeed), others = losses.length - 1, df = others * (ofSeed.length - 1);
  const squares = losses.flatMap((row) => row.map((loss, i) =>
    (loss - mean(row) - ofSeed[i] + all) ** 2));
  const half = (error, seeds) => df > 0
    ? studentT(error, df) * Math.sqrt(2 / seeds * squares.reduce((a, b) => a + b) / df) : NaN;
  return (seeds) => ({ each: half(0.05, seeds), all: half(0.05 / others, seeds) });
}
