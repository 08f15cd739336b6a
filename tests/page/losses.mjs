// Trains models in WebAssembly and with the program of this machine, and compares the losses of all
// steps: node losses.mjs engine.wasm HEADCOUNT FOLDER
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { load } from "./engine.mjs";

const [wasm, program, folder] = process.argv.slice(2);
const kSteps = 100, kTolerance = 1e-4;
const small = { steps: kSteps, context: 64, batch: 4, dim: 32, layers: 2, "eval-every": 0 };
const runs = [
  { data: "lookup", attention: "mha", steps: kSteps, "eval-every": 0 },
  { data: "lookup", attention: "mla8+0", steps: kSteps, "eval-every": 0 },
  { ...small, data: "tales", attention: "gqa2@32/share" },
  { ...small, data: "tales", attention: "delta" },
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
  const name = `${settings.data} ${settings.attention}`;
  if (expected.length !== kSteps || !(greatest <= kTolerance))
    throw new Error(`${name}: losses differ by ${greatest} in ${expected.length} steps`);
  console.log(`${name}: the losses of ${kSteps} steps differ by ${greatest.toExponential(1)} at most`);
}
