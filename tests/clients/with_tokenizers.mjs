// Tokenizes with the JavaScript tokenizers what headcount tokenized:
//
//   npm install --prefix FOLDER @huggingface/tokenizers    (or @huggingface/transformers)
//   NODE_MODULES=FOLDER/node_modules node tests/clients/with_tokenizers.mjs PROGRAM CHECKPOINT...
//
// PROGRAM is the program headcount. For each checkpoint folder: the same tokens as headcount, and
// the text comes back. No network is used.
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";

const require = createRequire(join(resolve(process.env.NODE_MODULES ?? "node_modules"), "here"));
const work = mkdtempSync(join(tmpdir(), "headcount-"));

const folderOf = (name) => join(resolve(process.env.NODE_MODULES ?? "node_modules"), name);
const load = (name) =>
  [require(name), `${name} ${JSON.parse(readFileSync(join(folderOf(name), "package.json"))).version}`];

// encode(text) and decode(ids) of each library that is installed, by its name and version.
async function libraries(folder) {
  const found = {};
  if (existsSync(folderOf("@huggingface/tokenizers"))) {
    const [library, version] = load("@huggingface/tokenizers");
    const read = (name) => JSON.parse(readFileSync(join(folder, name)));
    const tokenizer = new library.Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
    found[version] = [(text) => tokenizer.encode(text).ids, (ids) => tokenizer.decode(ids)];
  }
  if (existsSync(folderOf("@huggingface/transformers"))) {
    const [library, version] = load("@huggingface/transformers");
    library.env.allowRemoteModels = false;
    library.env.localModelPath = dirname(folder);
    const tokenizer = await library.AutoTokenizer.from_pretrained(basename(folder));
    found[version] = [(text) => tokenizer.encode(text), (ids) => tokenizer.decode(ids)];
  }
  assert(Object.keys(found).length > 0, "neither library is installed; set NODE_MODULES");
  return found;
}

// The i32 tensor "tokens" of a safetensors file.
function tokensOf(path) {
  const bytes = readFileSync(path);
  const start = 8 + Number(bytes.readBigUInt64LE());
  const [begin, end] = JSON.parse(bytes.subarray(8, start)).tokens.data_offsets;
  return Array.from({ length: (end - begin) / 4 }, (_, i) => bytes.readInt32LE(start + begin + 4 * i));
}

try {
  const [program, ...folders] = process.argv.slice(2);
  assert(folders.length > 0, "usage: with_tokenizers.mjs PROGRAM CHECKPOINT...");
  for (const folder of folders.map((name) => resolve(name))) {
    const vocabulary = JSON.parse(readFileSync(join(folder, "tokenizer.json"))).model.vocab;
    const all = Object.keys(vocabulary).join("").replaceAll("\u2581", " ");
    // Every character, spaces in a row, at the start and at the end.
    const once = `  ${all}  ${[...all].reverse().join(" ")}\n\n `;
    const context = JSON.parse(readFileSync(join(folder, "tokenizer_config.json"))).model_max_length;
    const text = once.repeat(Math.ceil((context + 1) / [...once].length));
    const file = join(work, "text.txt"), output = join(work, "logits.safetensors");
    writeFileSync(file, text);
    execFileSync(program, ["eval", "--from", folder, "--data", file, "--logits", output]);
    for (const [version, [encode, decode]] of Object.entries(await libraries(folder))) {
      const ids = encode(text);
      assert.deepStrictEqual(Array.from(ids).slice(0, context), tokensOf(output));
      assert.strictEqual(decode(ids), text);
      console.log(`${folder}: ${version}: the same ${context} tokens, the same text`);
    }
  }
} finally {
  rmSync(work, { recursive: true });
}
