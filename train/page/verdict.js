// Sentences that compare the attentions, as headcount compare does: with the one of the largest
// cache, seed by seed (train/compare/README.md, method).
import { mean, numberText, percentText, plural, signedText } from "../view/format.js";

const kTolerance = 5; // percentage points that still count as enough
const kDecides = 5; // seeds: a sign test at 5 % needs as many, since (1/2)^4 is more than 0.05

// Differences of the last evaluations, by seed; infinite for a seed that diverged.
function costsOf(run, reference, answered) {
  return run.records.flatMap(({ seed, checks, diverged }) => {
    const other = reference.finished.find((record) => record.seed === seed);
    if (!other) return [];
    if (diverged) return [Infinity];
    const mine = checks.at(-1), its = other.checks.at(-1);
    return [answered ? 100 * (its.answers - mine.answers) : mine.loss - its.loss];
  });
}

// Middle value; the upper of two.
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function sentence(run, reference, costs, answered) {
  const share = run.plan.cache.bytes_per_token / reference.plan.cache.bytes_per_token;
  const name = `${run.spec} keeps ${percentText(share, 0)} of ${reference.spec}’s cache`;
  const finished = costs.filter(Number.isFinite), lost = costs.length - finished.length;
  const lostText = `${plural(lost, "seed")} diverged`, diverged = lost ? `, ${lostText}` : "";
  if (!answered) {
    if (!finished.length) return `${name}; ${lostText}, none finished.`;
    const seeds = finished.length > 1 ? `mean of ${plural(finished.length, "seed")}` : "one seed";
    return `${name}; its validation loss minus that of ${reference.spec} is ` +
      `${signedText(mean(finished), 3)} nats (${seeds}${diverged}).`;
  }
  const below = costs.filter((cost) => cost < kTolerance).length;
  const decided = costs.length >= kDecides && (below === 0 || below === costs.length);
  const word = decided ? below ? "enough" : "not enough" : "open";
  if (!finished.length) return `${name}; ${lostText}, none finished: ${word}.`;
  return `${name} and loses ${signedText(median(finished), 1)} points of right answers ` +
    `(${below} of ${plural(costs.length, "seed")} below ${kTolerance}${diverged}): ${word}.`;
}

// One sentence for each attention beside the one with the largest cache, and what they rest on.
export function verdicts(runs, answered) {
  const all = runs.filter((run) => run.settings);
  const trained = all.filter((run) => run.isTrained);
  if (all.length < 2 || !trained.length) return [];
  const bytes = (run) => run.plan.cache.bytes_per_token;
  const reference = all.reduce((a, b) => bytes(b) > bytes(a) ? b : a);
  if (reference.error) {
    return [`${reference.spec}, which has the largest cache, failed: there is nothing to compare ` +
      "the others with."];
  }
  if (!trained.includes(reference)) return [];
  const costs = new Map(trained.filter((run) => run !== reference)
    .map((run) => [run, costsOf(run, reference, answered)]).filter(([, ofRun]) => ofRun.length));
  if (answered) {
    const best = Math.max(...Object.values(reference.plan.baselines).filter(Number.isFinite));
    const shares = reference.finished.map((record) => record.checks.at(-1).answers);
    if (100 * (mean(shares) - best) <= kTolerance) {
      return [`${reference.spec} has ${percentText(mean(shares))} of the answers right, a ` +
        `reader who looks nothing up ${percentText(best)}: beside it nothing can be called ` +
        "enough. Train with more steps."];
    }
    for (const [run, ofRun] of costs) {
      if (bytes(run) < bytes(reference) && ofRun.length >= kDecides &&
          ofRun.every((cost) => cost < -kTolerance)) {
        return [`${reference.spec} has ${numberText(-median(ofRun), 1)} points fewer of the ` +
          `answers ` +
          `right than ${run.spec}, whose cache is smaller: beside it nothing can be called ` +
          "enough. Train with more steps."];
      }
    }
  }
  const sentences = [...costs].map(([run, ofRun]) => sentence(run, reference, ofRun, answered));
  const seeds = Math.min(...[...costs.values()].map((ofRun) => ofRun.length));
  if (sentences.length && seeds < kDecides) {
    sentences.push(answered ? `A verdict takes ${numberText(kDecides)} seeds or more; this is ` +
      `${plural(seeds, "seed")}.` : "One text and so few seeds prove no small difference.");
  }
  return sentences;
}
