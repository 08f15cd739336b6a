// Trains the models with which the page opens, and packs them as the page saves its models, with
// weights in float16: node models.mjs ENGINE.wasm ARCHIVE.zip
import { readFileSync, writeFileSync } from "node:fs";
import { WasmEngine } from "./wasm_engine.js";
import { zipped } from "./zip.js";

// Equal bytes of cache, four query heads: few enough to look at each. The study of lookups has
// eight seeds of these; with this one the differences are as in most.
const kSettings = { data: "lookup", heads: 4 }, kSeed = 5;
const kAttentions = ["gqa4x8", "mqax32", "mqax32:qk-norm=on"];

const [path, archive] = process.argv.slice(2);
const module = new WebAssembly.Module(readFileSync(path));
const bytesOf = (value) => new TextEncoder().encode(JSON.stringify(value));

// Bits of a number below 65,504 in float16. A carry out of the fraction goes to the exponent.
function halfOf(value) {
  const size = Math.abs(value), sign = value < 0 ? 0x8000 : 0;
  if (size < 2 ** -14) return sign + Math.round(size * 2 ** 24); // subnormal
  const exponent = Math.floor(Math.log2(size));
  return sign + ((exponent + 15) << 10) + Math.round((size / 2 ** exponent - 1) * 1024);
}

// Weights in the format of safetensors, all float32, in float16.
function halved(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const begin = 8 + Number(view.getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(8, begin)));
  for (const tensor of Object.values(head).filter(({ dtype }) => dtype)) Object.assign(tensor,
    { dtype: "F16", data_offsets: tensor.data_offsets.map((offset) => offset / 2) });
  const names = bytesOf(head), out = new Uint8Array(8 + names.length + (bytes.length - begin) / 2);
  const written = new DataView(out.buffer);
  written.setBigUint64(0, BigInt(names.length), true);
  out.set(names, 8);
  for (let i = 0; begin + 4 * i < bytes.length; ++i)
    written.setUint16(8 + names.length + 2 * i, halfOf(view.getFloat32(begin + 4 * i, true)), true);
  return out;
}

// A run as the page saves it, and the files of its model.
function trained(attention, number) {
  const engine = new WasmEngine(module);
  const call = (request) => {
    const { reply, files } = engine.call(request, []);
    if (reply.error !== undefined) throw new Error(reply.error);
    return { ...reply, files };
  };
  const settings = { ...kSettings, attention, seed: kSeed }, folder = String(number);
  const plan = call({ do: "start", settings }), { steps, "eval-every": every } = plan.settings;
  const record = { seed: kSeed, folder, losses: [], checks: [], step: 0, learned: 0, diverged: "" };
  while (record.step < steps && !record.learned) {
    const { step, loss } = call({ do: "step", steps: every });
    const { learned, ...check } =
      call({ do: "evaluate", tokens: plan.settings["eval-characters"] });
    record.losses.push([step, loss]);
    record.checks.push({ ...check, files: undefined, baselines: undefined });
    Object.assign(record, { step, learned: learned ? step : 0 });
  }
  console.error(`${attention}: ${record.learned ? "" : "not "}learned in ${record.step} steps`);
  const files = call({ do: "save" }).files.map(({ name, bytes }) => ({ name: `${folder}/${name}`,
    bytes: name === "model.safetensors" ? halved(bytes) : bytes }));
  return { run: { attention, plan: { ...plan, files: undefined }, records: [record] }, files };
}

const all = kAttentions.map(trained), runs = all.map(({ run }) => run);
const summary = { name: "comparison.json",
  bytes: bytesOf({ settings: kSettings, seeds: 1, runs }) };
const date = new Date(2026, 0); // so that equal models give equal archives
const pieces = await zipped([summary, ...all.flatMap(({ files }) => files)], date);
writeFileSync(archive, Buffer.concat(pieces));
