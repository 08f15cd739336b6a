// Sentences that compare the attentions, as headcount compare does: with the one of the largest
// cache, seed by seed (train/compare/README.md, method).
import { numberText, percentText, plural, signedText } from "./format.js";

const kTolerance = 5; // percentage points that still count as enough
const kDecides = 5; // seeds: a sign test at 5 % needs as many, since (1/2)^4 is more than 0.05

// Differences of the last evaluations, by seed.
function costsOf(run, reference, answered) {
  return run.records.flatMap(({ seed, checks, files }) => {
    const other = reference.records.find((record) => record.seed === seed);
    if (!files || !other?.files) return [];
    const mine = checks.at(-1), its = other.checks.at(-1);
    return [answered ? 100 * (its.answers - mine.answers) : mine.loss - its.loss];
  });
}

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// Middle value; the upper of two.
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function sentence(run, reference, costs, answered) {
  const share = run.plan.cache.bytes_per_token / reference.plan.cache.bytes_per_token;
  const name = `${run.spec} keeps ${percentText(share, 0)} of ${reference.spec}’s cache`;
  if (!answered) {
    const seeds = costs.length > 1 ? `mean of ${plural(costs.length, "seed")}` : "one seed";
    return `${name}; its validation loss minus that of ${reference.spec} is ` +
      `${signedText(mean(costs), 3)} nats (${seeds}).`;
  }
  const below = costs.filter((cost) => cost < kTolerance).length;
  const decided = costs.length >= kDecides && (below === 0 || below === costs.length);
  const word = decided ? below ? "enough" : "not enough" : "open";
  return `${name} and loses ${signedText(median(costs), 1)} points of right answers ` +
    `(${below} of ${plural(costs.length, "seed")} below ${kTolerance}): ${word}.`;
}

// One sentence for each attention beside the one with the largest cache, and what they rest on.
export function verdicts(runs, answered) {
  const all = runs.filter((run) => run.settings);
  const trained = all.filter((run) => run.isTrained && run.last);
  if (all.length < 2 || !trained.length) return [];
  const bytes = (run) => run.plan.cache.bytes_per_token;
  const reference = all.reduce((a, b) => bytes(b) > bytes(a) ? b : a);
  if (reference.error) {
    return [`${reference.spec}, which has the largest cache, failed: there is nothing to compare ` +
      "the others with."];
  }
  if (!trained.includes(reference)) return [];
  if (answered) {
    const best = Math.max(...Object.values(reference.plan.baselines).filter(Number.isFinite));
    const shares = reference.records.map((record) => record.checks.at(-1).answers);
    if (100 * (mean(shares) - best) <= kTolerance) {
      return [`${reference.spec} has ${percentText(mean(shares))} of the answers right, a ` +
        `reader who looks nothing up ${percentText(best)}: beside it nothing can be called ` +
        "enough. Train with more steps."];
    }
  }
  const sentences = trained.filter((run) => run !== reference).flatMap((run) => {
    const costs = costsOf(run, reference, answered);
    return costs.length ? [sentence(run, reference, costs, answered)] : [];
  });
  const seeds = Math.min(...trained.map((run) => run.records.length));
  if (sentences.length && seeds < kDecides) {
    sentences.push(answered ? `A verdict takes ${numberText(kDecides)} seeds or more; this is ` +
      `${plural(seeds, "seed")}.` : "One text and so few seeds prove no small difference.");
  }
  return sentences;
}
