// Where in a text of source code models lose: mean losses of characters inside identifiers, by how
// far back the same identifier last stood. Usage: node train/compare/text_losses.mjs TEXT RUN...
// Prints a line of JSON a run: class of character -> number of characters, mean loss in nats.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";

const [path, ...runs] = process.argv.slice(2);
const program = process.env.HEADCOUNT ?? "headcount";
const kWindows = 200, kContext = 256, kDistances = [32, 128, 256];

// Windows of the validation part, the last tenth, at equal steps; those of ASCII alone, whose
// characters are bytes.
const text = readFileSync(path, "latin1");
const from = Math.ceil(text.length * 0.9) + 4096;
const step = Math.floor((text.length - from - kContext - 1) / kWindows);
const windows = Array.from({ length: kWindows }, (_, i) =>
  text.slice(from + i * step, from + i * step + kContext + 1))
  .filter((window) => /^[\n\t -~]*$/.test(window));

// The class of each character. The first two of an identifier are apart, since they say which one it
// is. The others belong to the distance of the last place where the same identifier stood.
function classes(window) {
  const result = Array(window.length).fill("outside identifiers");
  const last = new Map();
  for (const { 0: word, index } of window.matchAll(/[A-Za-z_][A-Za-z0-9_]*/g)) {
    const distance = index - (last.get(word) ?? -Infinity);
    const bound = kDistances.find((bound) => distance <= bound);
    const name = bound === undefined ? "new in the window" : `at most ${bound} back`;
    for (let i = 0; i < word.length; ++i)
      result[index + i] = i < 2 ? "first two of an identifier" : name;
    last.set(word, index);
  }
  return result;
}

// Loss in nats of each token but the first, from what `eval --logits` wrote.
function lossesOf(file) {
  const bytes = readFileSync(file), size = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + size).toString());
  const begin = bytes.byteOffset + 8 + size;
  const numbers = ({ data_offsets: [first, end] }, Type) =>
    new Type(bytes.buffer.slice(begin + first, begin + end));
  const tokens = numbers(header.tokens, Int32Array), logits = numbers(header.logits, Float32Array);
  const width = header.logits.shape[1];
  return Array.from({ length: tokens.length - 1 }, (_, row) => {
    const scores = logits.subarray(row * width, (row + 1) * width), most = Math.max(...scores);
    return most + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - most), 0)) -
      scores[tokens[row + 1]];
  });
}

const folder = mkdtempSync(`${tmpdir()}/losses-`);
const window = `${folder}/window.txt`, logits = `${folder}/logits.safetensors`;
for (const run of runs) {
  const sums = {};
  for (const characters of windows) {
    writeFileSync(window, characters);
    const { status, stderr } = spawnSync(program, ["eval", "--from", run, "--data", window,
      "--logits", logits, "--threads", "1"], { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
    const names = classes(characters);
    lossesOf(logits).forEach((loss, i) => {
      const sum = sums[names[i + 1]] ??= { characters: 0, loss: 0 };
      ++sum.characters;
      sum.loss += loss;
    });
  }
  for (const sum of Object.values(sums)) sum.loss = Number((sum.loss / sum.characters).toFixed(4));
  console.log(JSON.stringify({ run, sums }));
}
rmSync(folder, { recursive: true });
