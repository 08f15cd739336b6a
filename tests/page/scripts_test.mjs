// Scripts of the page that need neither a page nor the module: links, archives, verdicts.
import assert from "node:assert/strict";
import { createHash, webcrypto } from "node:crypto";
import { deflateRawSync } from "node:zlib";
import { checkSums, withSums } from "../../train/page/checksums.js";
import { readLink } from "../../train/page/link.js";
import { state } from "../../train/page/state.js";
import { kinds } from "../../train/page/specs.js";
import { verdicts } from "../../train/page/verdict.js";
import { unzipped, zipped } from "../../train/page/zip.js";

globalThis.crypto ??= webcrypto; // of node 18

const follow = (asked) => readLink(`#settings=${encodeURIComponent(JSON.stringify(asked))}`);

// A trained attention. `values` are right answers, or losses, by seed; null: it diverged.
function trained(spec, bytes, values) {
  const records = values.map((value, i) => ({ seed: i + 1,
    checks: [{ answers: value, loss: value }], files: value === null ? null : [],
    diverged: value === null ? "the loss became NaN" : "" }));
  return { spec, settings: {}, error: "", isTrained: true, records,
    finished: records.filter((record) => record.files),
    plan: { cache: { bytes_per_token: bytes }, baselines: { guesser: 0.25 } } };
}
const five = (value) => Array(5).fill(value);
const verdictsOf = (runs, answered = true) =>
  verdicts(runs, answered).join("\n").replaceAll("\u00a0", " ");

// An archive of one file, packed as other programs do.
function deflated(file) {
  const [head, name, bytes, entry, , end] = zipped([file]).map((piece) => Buffer.from(piece));
  const packed = deflateRawSync(bytes);
  for (const [record, method] of [[head, 8], [entry, 10]]) {
    record.writeUInt16LE(8, method);
    record.writeUInt32LE(packed.length, method + 10);
  }
  end.writeUInt32LE(head.length + name.length + packed.length, 16);
  return { archive: new Uint8Array(Buffer.concat([head, name, packed, entry, name, end])),
    packed: head.length + name.length };
}

const tests = {
  "a link of another form is refused, and the page has its usual choices"() {
    for (const asked of [null, 3, [], "mha", { settings: null }, { settings: [] },
      { attentions: "mha" }, { attentions: null }, { settings: {}, attentions: {} }])
      assert.match(follow(asked), /cannot be read/, JSON.stringify(asked));
    assert.match(readLink("#settings=%"), /cannot be read/);
    assert.deepEqual([state.text, state.cards], ["lookup", []]);
  },
  "a link's text that the page lacks is the reader's own, whatever its name"() {
    for (const data of ["toString", "constructor", "__proto__", undefined]) {
      state.text = "lookup";
      assert.match(follow({ settings: { data, steps: 7 } }), /is not here/, data);
      assert.deepEqual([state.text, state.changed.own], ["own", { steps: 7 }]);
    }
    assert.equal(follow({ settings: { data: "tales" }, attentions: ["mha", "mqa"] }), "");
    assert.deepEqual([state.text, state.cards.length], ["tales", 2]);
  },
  async "a saved model has the checksums of sha256sum, and damage is named"() {
    const files = ["config.json", "model.safetensors"].map((name) =>
      ({ name, bytes: new TextEncoder().encode(name.repeat(999)) }));
    const all = await withSums(files);
    assert.deepEqual(all.slice(0, 2), files);
    assert.deepEqual([all[2].name, new TextDecoder().decode(all[2].bytes)], ["SHA256SUMS",
      files.map(({ name, bytes }) =>
        `${createHash("sha256").update(bytes).digest("hex")}  ${name}\n`).join("")]);
    await checkSums(all);
    await checkSums(files); // of another program
    const damaged = all.map((file) => ({ ...file, bytes: file.bytes.slice() }));
    damaged[1].bytes[7] ^= 1;
    await assert.rejects(checkSums(damaged), /^Error: model\.safetensors is damaged/);
  },
  async "an archive is read as it was written, and deflated"() {
    const file = { name: "mha/config.json", bytes: new TextEncoder().encode("{}".repeat(999)) };
    const stored = new Uint8Array(Buffer.concat(zipped([file])));
    assert.deepEqual(await unzipped(stored), [file]);
    const { archive, packed } = deflated(file);
    assert.ok(archive.length < 300);
    assert.deepEqual(await unzipped(archive), [file]);
    archive[packed] ^= 0xff;
    await assert.rejects(unzipped(archive), /mha\/config.json is damaged/);
  },
  async "what macOS adds to an archive is left out"() {
    const files = ["a.json", "__MACOSX/._a.json"]
      .map((name) => ({ name, bytes: new Uint8Array(3) }));
    const archive = new Uint8Array(Buffer.concat(zipped(files)));
    assert.deepEqual(await unzipped(archive), files.slice(0, 1));
  },
  "a seed that diverged counts as one that loses more"() {
    const mha = trained("mha", 512, five(0.9));
    assert.match(verdictsOf([mha, trained("mqa", 128, [0.9, 0.9, 0.9, 0.9, null])]),
      /loses 0\.0 points .*\(4 of 5 seeds below 5, 1 seed diverged\): open\.$/);
    assert.match(verdictsOf([mha, trained("mqa", 128, [0.3, null, 0.3, 0.3, 0.3])]),
      /\(0 of 5 seeds below 5, 1 seed diverged\): not enough\.$/);
    assert.match(verdictsOf([mha, trained("mqa", 128, five(null))]),
      /cache; 5 seeds diverged, none finished: not enough\.$/);
    assert.match(verdictsOf([trained("mha", 512, [1, 2, 3]), trained("mqa", 128, [2, null, 4])],
      false), /is \+1\.000 nats \(mean of 2 seeds, 1 seed diverged\)\./);
  },
  "a seed on which the reference diverged does not count"() {
    const runs = [trained("mha", 512, [0.9, 0.9, 0.9, 0.9, null]), trained("mqa", 128, five(0.9))];
    assert.match(verdictsOf(runs),
      /\(4 of 4 seeds below 5\): open\.\nA verdict takes 5 seeds or more; this is 4 seeds\.$/);
  },
  "beside a reference that a smaller cache beats, nothing is enough"() {
    const mha = trained("mha", 512, five(0.8)), gqa = trained("gqa2", 256, five(0.8));
    const ahead = (bytes, right) => verdictsOf([mha, gqa, trained("mqa", bytes, right)]);
    assert.match(ahead(128, five(0.9)),
      /^mha has 10\.0 points fewer of the answers right than mqa, .*nothing can be called enough/);
    assert.match(ahead(512, five(0.9)), /mqa keeps .*: enough\.$/); // not smaller
    assert.match(ahead(128, [0.9, 0.9, 0.8, 0.9, 0.9]), /mqa keeps .*: enough\.$/);
  },
};

kinds.push(...["mha", "mqa"].map((name) => ({ name, attends: true, numbers: [] })));
let failures = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok: ${name}`);
  } catch (error) {
    ++failures;
    console.error(`FAILED: ${name}\n${error.stack}`);
  }
}
process.exit(failures > 0 ? 1 : 0);
