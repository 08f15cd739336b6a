// Trains models in WebAssembly and with the program of this machine, and compares the losses of all
// steps: node losses.mjs engine.wasm HEADCOUNT FOLDER
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { load } from "./engine.mjs";

const [wasm, program, folder] = process.argv.slice(2);
const kTolerance = 1e-4;
const small = { steps: 100, context: 64, batch: 4, dim: 32, layers: 2, "eval-every": 0 };
const runs = [
  { data: "lookup", attention: "mha", steps: 100, "stop-at-answers": 0 },
  { data: "lookup", attention: "mla8+0", steps: 100, "stop-at-answers": 0 },
  ...["gqa2@32/share", "mfa/gta2", "tpa/latent-bias", "fox/delta", "kda", "hca@16/v4@16"].map(
    (attention) => ({ ...small, data: "tales", attention })),
  // Which tokens a query picks hangs on the last digits after some steps.
  ...["dsa4+4", "csa4+4@16"].map(
    (attention) => ({ ...small, steps: 20, data: "tales", attention })),
  { ...small, data: "tales", attention: "mha", activation: "gelu", norm: "layer" },
  { ...small, data: "tales", attention: "mqa", optimizer: "muon", dropout: 0.1 },
];

const engine = load(wasm);
for (const settings of runs) {
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  execFileSync(program, ["train", ...flags, "--eval-characters", "2k", "--threads", "1", "--out",
    folder, "--force", "--quiet"]);
  const expected = readFileSync(`${folder}/metrics.jsonl`, "utf8").trim().split("\n");
  engine.call({ do: "start", settings });
  let greatest = 0;
  for (const line of expected) {
    const { step, loss } = JSON.parse(line);
    const own = engine.call({ do: "step", steps: 1 });
    if (own.step !== step) throw new Error(`step ${own.step} here, ${step} there`);
    greatest = Math.max(greatest, Math.abs(own.loss - loss));
  }
  const name = `${settings.data} ${settings.attention}`, count = expected.length;
  if (count !== settings.steps || !(greatest <= kTolerance))
    throw new Error(`${name}: losses differ by ${greatest} in ${count} steps`);
  console.log(`${name}: losses of ${count} steps differ by ${greatest.toExponential(1)} at most`);
}
