// Scripts of the page that need neither a page nor the module: links, archives, checksums.
import assert from "node:assert/strict";
import { createHash, webcrypto } from "node:crypto";
import test from "node:test";
import { checkSums, withSums } from "../../train/page/checksums.js";
import { modelsIn } from "../../train/page/files.js";
import { linkOfChoice, readLink } from "../../train/page/link.js";
import { lossWarning } from "../../train/page/overfit.js";
import { state } from "../../train/page/state.js";
import { randomRecall, recallAnswer, writtenWith } from "../../train/page/texts.js";
import { unzipped, zipped } from "../../train/page/zip.js";

globalThis.crypto ??= webcrypto; // of node 18

const follow = (asked) => readLink(`#settings=${encodeURIComponent(JSON.stringify(asked))}`);

// An archive of one file that is not compressed, as other programs and earlier pages make it.
async function stored(file) {
  const [head, name, , entry, , end] =
    (await zipped([file])).map((piece) => Buffer.from(piece));
  for (const [record, method] of [[head, 8], [entry, 10]]) {
    record.writeUInt16LE(0, method);
    record.writeUInt32LE(file.bytes.length, method + 10);
  }
  end.writeUInt32LE(head.length + name.length + file.bytes.length, 16);
  return new Uint8Array(Buffer.concat([head, name, file.bytes, entry, name, end]));
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
  "a report on recall is repeated, up to the step at which its runs end"() {
    const ending = { "stop-at-answers": 90, "eval-every": 20, steps: 300 };
    assert.equal(follow({ settings: { data: "recall", ...ending, "stop-at-loss": 0 },
      attentions: ["mha", "mhax4"] }), "");
    assert.deepEqual([state.text, state.changed.recall], ["recall", ending]);
  },
  "a question of recall asks for what stood behind a key"() {
    const line = randomRecall([...".abcdefABCDEFG"], 4);
    assert.match(line, /^([a-f][A-G]){4}[a-f]$/);
    assert.equal(new Set(line.slice(0, 8)).size, 8);
    assert.equal(recallAnswer(line, 4), line[line.indexOf(line[8]) + 1]);
    assert.equal(recallAnswer("aAbBcCdDxx.c", 4), "C");
    for (const none of ["", "aA", "aAbBcCdDx", "aAbBcCdDA", "aAbBcCdDx.x"])
      assert.equal(recallAnswer(none, 4), null, none);
    assert.match(randomRecall([...".abcdefABCDEFG"], 6), /^([a-f][A-G]){6}[a-f]$/);
    assert.equal(recallAnswer("aAbBcCdDeEfFe", 6), "E");
    assert.equal(recallAnswer("aAbB.c.c", 2), null); // what fills a line is no key
  },
  "a checkpoint tells by its characters what text it was trained on"() {
    const recall = [...".ABCDEFGabcdefgh"];
    assert.deepEqual(writtenWith(recall, 32),
      { data: "recall", symbols: 16, "line-length": 16, pairs: 4 });
    assert.deepEqual(writtenWith([...".ABC"], 4),
      { data: "recall", symbols: 4, "line-length": 4, pairs: 1 });
    for (const symbols of [[], recall.slice(1), [...recall, " "], [...recall, "é"], ["."]])
      assert.deepEqual(writtenWith(symbols, 32), { data: "own" }, symbols.join(""));
  },
  "runs that overfit or learn nothing are warned of"() {
    const run = (spec, ...losses) => ({ spec, plan: { vocabulary: 56 }, finished: [{ checks:
      [4.1, ...losses, losses.at(-1)].map((loss, i) =>
        ({ step: 250 * Math.min(i, losses.length), loss })) }] });
    const fine = [run("mha", 2.3, 2.2), run("mqa", 2, 2.02)];
    assert.equal(lossWarning(fine), "");
    const three = [run("mha", 2.25, 3, 3.81), run("gqa2", 2.3, 2.2), run("mqa", 2.5, 4.13)];
    assert.equal(lossWarning(three),
      "Overfitting: the validation loss rises again, of mha from 2.25 at step 250 to 3.81 and " +
      "mqa from 2.50 at step 250 to 4.13. What is left at the end does not tell what a cache costs: " +
      "take more text, or fewer steps. A uniform guess has a loss of 4.03.");
    assert.match(lossWarning([run("mha", 4.02, 4.03), run("mqa", 3.9, 2.3)]),
      /^mha learned next to nothing .* A uniform guess has a loss of 4\.03\.$/);
    const later = run("mha", 2.3, 2.2);
    later.finished[0].checks.at(-1).loss = 3; // on more text, which may be harder
    assert.equal(lossWarning([later]), "");
  },
  "the page's address makes another page choose the same"() {
    const mla = { kind: "mla", given: { "kv-rank": 8, "rope-dim": 0 }, share: 3 };
    const asked = { settings: { data: "own", steps: 50 }, attentions: ["mha", "gqa2x16@8/share"],
      seeds: 3, text: "Käuzchen & %" };
    assert.equal(follow(asked), "");
    state.cards[0].choice = mla;
    const address = linkOfChoice();
    Object.assign(state, { text: "tales", own: "", seeds: 1, cards: [], changed: { own: {} } });
    assert.equal(readLink(address), "");
    assert.deepEqual([state.text, state.changed.own, state.own, state.seeds],
      ["own", { steps: 50 }, asked.text, 3]);
    assert.deepEqual(state.cards.map(({ choice }) => choice.own),
      ["mla:kv-rank=8:rope-dim=0/2*share", asked.attentions[1]]);
    state.own = "x".repeat(20_000);
    assert.ok(linkOfChoice().length < 1000); // a long text is left out
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
  async "an archive is read as it was written, and without compression"() {
    const file = { name: "mha/config.json", bytes: new TextEncoder().encode("{}".repeat(999)) };
    const packed = new Uint8Array(Buffer.concat(await zipped([file, file])));
    assert.ok(packed.length < 600);
    assert.deepEqual(await unzipped(packed), [file, file]);
    const archive = await stored(file);
    assert.deepEqual(await unzipped(archive), [file]);
    for (const damaged of [packed, archive]) {
      damaged[60] ^= 0xff; // within the first file
      await assert.rejects(unzipped(damaged), /mha\/config.json is damaged/);
    }
  },
  "a run's folder is a model, of its newest checkpoint"() {
    const files = ["config.json", "checkpoints/step-9/model.safetensors", "metrics.jsonl",
      "checkpoints/step-20/model.safetensors", "checkpoints/step-20/config.json"]
      .map((name) => ({ name: `runs/mha/${name}`, bytes: name }));
    assert.deepEqual(modelsIn(files).map(({ folder, files: found }) =>
      [folder, found.map(({ name }) => name)]),
    [["runs/mha/checkpoints/step-20", ["model.safetensors", "config.json"]]]);
  },
  async "what macOS adds to an archive is left out"() {
    const files = ["a.json", "__MACOSX/._a.json"]
      .map((name) => ({ name, bytes: new Uint8Array(3) }));
    const archive = new Uint8Array(Buffer.concat(await zipped(files)));
    assert.deepEqual(await unzipped(archive), files.slice(0, 1));
  },
};

for (const [name, body] of Object.entries(tests)) test(name, body);
