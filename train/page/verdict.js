// What the engine decided about trainings that have finished, as sentences.
import { mean, numberText, percentText, plural } from "../view/format.js";

const kWords = { enough: "is enough", "not enough": "is not enough", later: "learns later",
  open: "is undecided" };

// Sentences on a reply to "judge" and on what was asked: see judged in engine/replies.h.
export function verdictTexts({ reference, undecided, tolerance, verdicts },
  { runs, baselines, steps = 0 }) {
  if (!verdicts) return [];
  const decimals = steps ? 0 : baselines ? 1 : 3;
  const amount = (value) => numberText(Math.abs(value), decimals);
  const bytesOf = (spec) => runs.find((run) => run.spec === spec).bytes;
  // "5 % more steps than mha", "1.2 points fewer right answers than mha" or "a loss 0.012 above
  // that of mha".
  const costText = (cost, interval = "") => steps
    ? `${amount(cost)}\u00a0% ${cost < 0 ? "fewer" : "more"} steps than ${reference}`
    : baselines
    ? `${amount(cost)} points ${cost < 0 ? "more" : "fewer"} right answers than ${reference}`
    : `a loss ${amount(cost)}${interval} ${cost < 0 ? "below" : "above"} that of ${reference}`;
  const compared = `${reference}, to which the others are compared,`;
  const { seeds } = runs.find(({ spec }) => spec === reference);
  const answers = seeds.filter(({ diverged }) => !diverged).map((seed) => seed.answers);
  if (!answers.length)
    return [`Nothing can be decided: ${compared} has diverged with every seed.`];
  if (undecided && steps) {
    return [`Nothing can be decided: ${compared} does not learn in ${plural(steps, "step")} with ` +
      "every seed. Train with more steps."];
  }
  if (undecided) {
    const better = verdicts.filter(({ spec, cost }) => cost !== null && cost < -tolerance &&
      bytesOf(spec) < bytesOf(reference)).sort((a, b) => a.cost - b.cost)[0];
    const guessed = Math.max(...Object.values(baselines ?? {}).filter(Number.isFinite));
    return ["Nothing can be decided: " + (better
      ? `${better.spec}, whose cache is smaller, has ${costText(better.cost)}.`
      : `${compared} has ${percentText(mean(answers))} right answers, and ` +
        `${percentText(guessed)} are right without a lookup.`) + " Train with more steps."];
  }
  return verdicts.map(({ spec, verdict, cost, half_width: half, below, of, diverged }) => {
    if (steps && cost === null && diverged === 0)
      return `${spec} does not learn in ${plural(steps, "step")}.`;
    const found = cost === null ? [] : [costText(cost, half === null ? ""
      : ` ± ${numberText(half, decimals)}`) + (baselines
      ? ` (${below} of ${plural(of, "seed")} ` +
        (steps ? `take less than ${amount(tolerance)}\u00a0% more)`
          : `lose less than ${amount(tolerance)})`)
      : ` (less than ${amount(tolerance)} is enough)`)];
    if (diverged > 0) found.push(`${plural(diverged, "seed")} diverged`);
    if (verdict === "enough")
      found.push(`${percentText(bytesOf(spec) / bytesOf(reference), 0)} of its cache`);
    return `${spec} ${kWords[verdict]}: ${found.join(", ")}.`;
  });
}
