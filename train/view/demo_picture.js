// The demo as a picture: steps to learn recall and lookups, by the number of KV heads.
import { notLearned } from "./charts.js";
import { numberText } from "./format.js";
import { chart } from "./plot.js";
import { medianOf } from "./lookup_study.js";
import { variant } from "./tables.js";

// Point of the median of an attention with so many KV heads, from the least to the most steps.
function point(r, spec, kvHeads) {
  const all = variant(r, spec).runs.map((run) => run.learned_at ?? r.steps), y = medianOf(all);
  return { x: kvHeads, y, low: Math.min(...all), high: Math.max(...all),
    hover: `${spec}: ${y < r.steps ? "" : "more than "}${numberText(y)} steps` };
}

// `recall` and `lookups`: results of the demo's comparisons.
export function demoPicture(recall, lookups) {
  const series = [
    { name: "lookups", style: 1, apart: true,
      points: [point(lookups, "mqax32", 1), point(lookups, "gqa4x8", 4)] },
    { name: "… with QK-norm", style: 2, apart: true,
      points: [point(lookups, "mqax32:qk-norm=on", 1), point(lookups, "gqa4x8:qk-norm=on", 4)] },
    { name: "recall", style: 0, apart: true,
      points: [point(recall, "mqa", 1), point(recall, "mha", 4)] }];
  return { svg: chart({ kind: "lines", series, title: "Training steps until a task is learned",
    caption: "Medians of five seeds, with the least and the most. Recall asks for the value of a " +
      "key, lookups for the piece on a line of a board in one of six directions. In " +
      "lookups caches are equal, one KV head of 32 numbers or four of 8; in recall four heads " +
      "have four times the keys and values of one.",
    xTitle: "KV heads (lookups: equal caches)", yTitle: "steps", height: 300,
    levels: [notLearned(lookups.steps)],
    x: { log: 4, range: [-0.1, 1.1] }, y: { range: [0, 1.1 * lookups.steps] } }) };
}
