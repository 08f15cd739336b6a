// Analysis of the study of query heads and KV heads on lookups: see train/compare/QUESTION.md.

export const kRates = [5e-4, 1e-3, 2e-3, 4e-3], kTuningSeeds = [101, 102];
export const kSeeds = [1, 2, 3, 4, 5, 6, 7, 8];
// Query heads by KV heads, of 64 cached numbers a token; the last are 16 heads of 2.
export const kCells = [[1, 1], [2, 1], [4, 1], [8, 1], [2, 2], [4, 2], [8, 2], [4, 4], [8, 4],
  [8, 8], [16, 16]].map(([heads, kv]) => ({ heads, kv, width: 32 / kv }));
// Cells of the two primary comparisons: KV heads 1 and 4 at 4 query heads, query heads 1 and 4 at
// one KV head.
export const kPrimary = [[4, 1], [4, 4], [1, 1]].map(([heads, kv]) =>
  kCells.find((cell) => cell.heads === heads && cell.kv === kv));

export const isOf = (cell) => (run) =>
  run.heads === cell.heads && run.kv === cell.kv && run.width === cell.width;
// Steps to learn; a run that did not learn counts all its steps.
export const stepsOf = (run) => run.learned ?? run.cap;

// The rate with the fewest steps over the tuning seeds; among equals the one of the least loss.
export function bestRate(runs, task, cell) {
  const tried = new Map();
  for (const run of runs) {
    if (run.task !== task || !kTuningSeeds.includes(run.seed) || !isOf(cell)(run)) continue;
    const sum = tried.get(run.lr) ?? { lr: run.lr, steps: 0, loss: 0 };
    sum.steps += stepsOf(run);
    sum.loss += run.loss ?? Infinity;
    tried.set(run.lr, sum);
  }
  return [...tried.values()].sort((a, b) => a.steps - b.steps || a.loss - b.loss)[0].lr;
}
