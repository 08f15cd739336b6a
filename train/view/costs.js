// Picture of a study: what each attention costs, by the bytes of its cache.
import { unitOf } from "./charts.js";
import { numberText, signedText } from "./format.js";
import { forest } from "./plot.js";
import { pooledHalves, variant } from "./tables.js";

// Costs of all attentions by the bytes of their caches, least first, with intervals of the pooled
// variance. `controls` are attentions that must cost something if the text can show a cost.
export function costsByBytes(r, controls) {
  const than = variant(r, r.verdict.reference), { each, all } = pooledHalves(r), kMost = 0.05;
  const share = (v) => v.kv_cache_bytes_per_token / than.kv_cache_bytes_per_token;
  const rows = r.variants.filter((v) => v !== than).sort((a, b) => share(a) - share(b)).map((v) => {
    const cost = v.paired_difference_mean, isControl = controls.includes(v.spec);
    return { name: v.spec, word: `${numberText(100 * share(v), 1)} %${isControl ? " !" : ""}`,
      style: isControl ? 2 : 1, mean: cost, low: cost - each, high: cost + each,
      outer: [cost - all, cost + all],
      hover: `${v.spec}: ${signedText(cost, 4)} ± ${numberText(each, 4)}` };
  });
  const beyond = rows.filter(({ mean: cost }) => cost > kMost).map(({ name, mean: cost }) =>
    ` ${name} is at ${signedText(cost, 3)}, beyond the picture.`).join("");
  const title = `Loss minus ${than.spec}, by bytes of KV cache`;
  const caption = `Percentages are bytes of ${than.spec}'s cache. Thick bars are 95\u00a0% ` +
    "intervals of one attention, thin bars hold for all at once. The band reaches to 1\u00a0% " +
    `of the loss. An exclamation mark is a control, which must cost something.${beyond}`;
  return { file: "costs", title, caption, svg: forest({ title, caption, width: 640, rows,
    xTitle: `loss minus ${than.spec}, ${unitOf(r)}`, tolerance: r.verdict.tolerance,
    edges: ["within 1 % ←", "→ beyond"], most: kMost }) };
}
