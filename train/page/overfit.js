// What the losses of trained runs warn of: overfitting, and runs that learned nothing. Their last
// losses then say little about caches.
import { listText, numberText } from "../view/format.js";

const kOverfit = 0.01; // share of its lowest loss by which the last one lies above it, as in compare
const kGuessing = 0.95; // least share of a uniform guess's loss of a run that learned nothing

// Evaluations of a seed that are a curve: one a step, since the last step has a second one, on more
// text.
export const courseOf = ({ checks }) =>
  checks.filter(({ step }, i) => step !== checks[i - 1]?.step);

// Loss of taking every character for equally likely; NaN where the vocabulary is not known, or not
// the same for all runs.
export const guessOf = (runs) => runs.every(({ plan }) =>
  plan.vocabulary === runs[0].plan.vocabulary) ? Math.log(runs[0]?.plan.vocabulary) : NaN;

// Sentences on the newest seed of each run that has finished; "" if there is nothing to warn of.
export function lossWarning(runs) {
  const text = (loss) => numberText(loss, 2), guess = guessOf(runs);
  const ended = runs.flatMap(({ spec, finished }) => {
    const course = finished.length ? courseOf(finished.at(-1)) : [];
    return course.length < 2 ? [] : [{ spec, last: course.at(-1).loss,
      lowest: course.reduce((least, check) => check.loss < least.loss ? check : least) }];
  });
  const risen = ended.filter(({ last, lowest: { loss } }) =>
    last > (1 + kOverfit) * loss);
  const guessing = ended.filter(({ lowest }) => lowest.loss > kGuessing * guess);
  const sentences = [];
  if (risen.length) {
    const each = risen.map(({ spec, last, lowest: { loss, step } }) =>
      `${spec} from ${text(loss)} at step ${numberText(step)} to ${text(last)}`);
    sentences.push(`Overfitting: the validation loss rises again, of ${listText(each)}. What is ` +
      "left at the end does not tell what a cache costs: take more text, or fewer steps.");
  }
  if (guessing.length) {
    sentences.push(`${listText(guessing.map(({ spec }) => spec))} learned next to nothing of ` +
      "what the validation text has: take more text, more steps or another learning rate.");
  }
  if (sentences.length && Number.isFinite(guess))
    sentences.push(`A uniform guess has a loss of ${text(guess)}.`);
  return sentences.join(" ");
}
