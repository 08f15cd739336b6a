// What a page asks of the program in WebAssembly: node engine_test.mjs engine.wasm HEADCOUNT FOLDER
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import test from "node:test";
import { areasOf, bytesOf } from "../../train/view/cache_picture.js";
import { randomRecall, recallAnswer, writtenWith } from "../../train/page/texts.js";
import { WasmEngine } from "../../train/page/wasm_engine.js";
import { load } from "./engine.mjs";

const [wasm, program, folder] = process.argv.slice(2);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const kLookup = { data: "lookup", attention: "mha", seed: 3, steps: 200 };
const headcount = (...flags) =>
  execFileSync(program, flags, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
// An engine that has trained for so many steps, at least one.
const trained = (settings, steps) => {
  const engine = load(wasm);
  engine.call({ do: "start", settings });
  engine.call({ do: "step", steps });
  return engine;
};
// Symbols of a saved model.
const vocabularyOf = (files) => Object.keys(JSON.parse(new TextDecoder().decode(
  files.find(({ name }) => name === "tokenizer.json").bytes)).model.vocab);
// Verdicts on runs {spec: [bytes, values of seeds 1, 2, ...]}; `of` gives what a value stands for.
const judge = (runs, of, more) => load(wasm).call({ do: "judge", ...more,
  runs: Object.entries(runs).map(([spec, [bytes, values]]) => ({ spec, bytes,
    seeds: values.map((value, i) => ({ seed: i + 1, questions: 4000, ...of(value) })) })) })
  .verdicts.join("; ");
// Bytes that the program counts for a small model with some attention.
const countedBytes = (attention, ...flags) => JSON.parse(headcount("cost", "--dim", "32",
  "--context", "64", "--format", "json", ...flags))
  .rows.find(({ name }) => name === attention).cache_bytes_at_64;
const drawnBytes = (layers, tokens) => bytesOf(areasOf(layers, tokens, tokens, ""));

const tests = {
  "a plan has the sizes that the program counts"() {
    const engine = load(wasm);
    const plan = (attention) => engine.call({ do: "plan",
      settings: { layers: 2, dim: 32, context: 64, data: "tales", attention } }).cache;
    const sum = (cache) => drawnBytes(cache.layers, 64);
    for (const attention of ["mha", "gqa", "mqa", "mla", "delta", "v4", "csa"]) {
      const cache = plan(attention), counted = countedBytes(attention, "--layers", "2");
      assert.deepEqual([cache.bytes_at_context, sum(cache)], [counted, counted], attention);
    }
    assert.equal(sum(plan("mqa/share")) * 2, sum(plan("mqa")));
    assert.equal(sum(plan("mha@16")) * 4, sum(plan("mha")));
    assert.deepEqual(plan("mqa/share").layers[1], []);
  },
  "the cache of a config.json is what the program counts"() {
    const config = JSON.stringify({ model_type: "gemma3", text_config: { model_type: "gemma3_text",
      num_hidden_layers: 12, hidden_size: 1024, num_attention_heads: 8, num_key_value_heads: 4,
      head_dim: 128, sliding_window: 512 } });
    writeFileSync(`${folder}/gemma.json`, config);
    const flags = ["cost", "--config", `${folder}/gemma.json`, "--context", "8192"];
    const engine = load(wasm), ask = { do: "cost", config, context: 8192 };
    const own = engine.call(ask);
    assert.equal(own.text, headcount(...flags));
    assert.equal(own.kv_heads, 4);
    assert.equal(own.figures.caches[0].cache.length, 12);
    const bytes = ({ figures }) => figures.caches[0].points.find(([tokens]) => tokens === 8192)[1];
    assert.equal(bytes(engine.call({ ...ask, kv_heads: 2 })) * 2, bytes(own));
    assert.equal(engine.call({ ...ask, memory: "1GiB" }).text,
      headcount(...flags, "--memory", "1GiB"));
    assert.throws(() => engine.call({ ...ask, config: '{"model_type": "lama"}' }), /'lama' is unknown/);
  },
  "counts beyond 32 bits are those of the program"() {
    const text = (name, config, context) => {
      writeFileSync(`${folder}/${name}.json`, JSON.stringify(config));
      const { text } = load(wasm).call({ do: "cost", config: JSON.stringify(config), context });
      assert.equal(text, headcount("cost", "--config", `${folder}/${name}.json`, "--context",
        String(context)), name);
      return text;
    };
    assert.match(text("deepseek", { model_type: "deepseek_v3", num_hidden_layers: 61,
      hidden_size: 7168, num_attention_heads: 128, kv_lora_rank: 512, qk_rope_head_dim: 64,
      qk_nope_head_dim: 128, v_head_dim: 128 }, 131072), /8\.578 GiB/); // 61 x 576 x 2 bytes a token
    text("mamba", { model_type: "mamba", num_hidden_layers: 2, hidden_size: 2 ** 20,
      intermediate_size: 2 ** 21, state_size: 512, conv_kernel: 4 }, 1024); // states of 4 GiB
    const engine = load(wasm);
    assert.match(engine.error({ do: "plan",
      settings: { text: "ab", context: 2 ** 24, "validation-part": 0.001 } }),
    /needs about 16777217000/);
    assert.match(engine.error({ do: "step", steps: 5 - 2 ** 32 }), /must be a whole number/);
  },
  "sizes beyond 32 bits are refused, and the session goes on"() {
    const engine = trained(kLookup, 2);
    for (const sizes of [{ heads: 65536, "head-dim": 65536, dim: 65536 },
      { attention: "delta", "v-dim": 2 ** 30 }])
      assert.match(engine.error({ do: "start", settings: { data: "tales", ...sizes } }),
        /overflow 32 bits|too many for 32 bits|memory of the page is full/, JSON.stringify(sizes));
    assert.equal(engine.call({ do: "step", steps: 1 }).step, 3);
    engine.call({ do: "start", settings: { data: "tales", batch: 65536, context: 65536 } });
    assert.match(engine.error({ do: "step", steps: 1 }), /overflow 32 bits/);
  },
  "an engine works in memory above 2 GiB"() {
    const engine = new WasmEngine(new WebAssembly.Module(readFileSync(wasm)));
    const files = trained(kLookup, 2).save();
    assert.notEqual(engine.exports.headcount_allocate(2 ** 31 - 2 ** 20), 0);
    assert.equal(engine.call({ do: "open" }, files).reply.error, undefined);
    const { reply } = engine.call({ do: "ask", prompt: "A" }, []);
    assert.equal([...reply.text].length, 1);
    assert.deepEqual(engine.call({ do: "save" }, []).files.map(({ name }) => name),
      files.map(({ name }) => name));
  },
  "a setting in an attention's name has priority over that of all attentions"() {
    const bytes = (settings) => load(wasm).call({ do: "plan",
      settings: { ...kLookup, ...settings } }).cache.bytes_per_token;
    for (const [attention, ofAll] of Object.entries({ "mha@4": { window: 0 },
      mhax4: { "head-dim": 2 }, gqa2: { "kv-heads": 4 }, "mha:tie-kv=on": { "tie-kv": "off" } }))
      assert.equal(bytes({ ...ofAll, attention }), bytes({ attention }), attention);
  },
  "a plan says what its attention's sliders stand at"() {
    const read = (attention) => {
      const { spec, choice } = load(wasm).call({ do: "plan",
        settings: { data: "tales", layers: 4, dim: 32, context: 64, attention } });
      return [spec, choice];
    };
    assert.deepEqual(read("gqa:kv-heads=2:head-dim=16:gate=on:window=8"), ["gqa2x16:gate=on@8",
      { kind: "gqa", given: { "kv-heads": 2, "head-dim": 16, gate: "on", window: 8 }, share: 1 }]);
    assert.deepEqual(read("mqa/3*share"),
      ["mqa/3*share", { kind: "mqa", given: {}, share: 4 }]);
    assert.deepEqual(read("3*delta/mla4+4"), ["3*delta/mla4+4", null]);
  },
  "runs are judged as compare does"() {
    const five = (value) => Array(5).fill(value), mha = [512, five(0.9)];
    const byAnswers = (runs) => judge(runs, (value) =>
      ({ step: 9, loss: value, answers: value, diverged: value === null }),
    { baselines: { guesser: 0.25 } });
    assert.match(byAnswers({ mha, mqa: [128, [0.9, 0.9, 0.9, 0.9, null]], mfa: [64, five(null)] }),
      /; mqa is undecided: .*\(4 of 5 .*, 1 run diverged; mfa is not enough: 5 runs diverged, .*$/);
    assert.match(byAnswers({ mha: [512, five(0.28)], mqa: mha }), /^nothing can be decided: /);
    const byLoss = (...more) =>
      judge({ mha: [512, five(1)], mqa: [128, more] }, (loss) => ({ loss }));
    assert.match(byLoss(1.2, 1.21, 1.2, 1.21, 1.2), /; mqa is not enough: \+0\.204 \+- 0\.007$/);
    assert.equal(byLoss(1.2, 1.21, 1.2, 1.21), ""); // until all seeds are there
    assert.match(judge({ mha: [512, five(1.2)], mqa: [128, five(1.1)] }, (loss) => ({ loss,
      checks: [{ step: 0, loss: 4 }, { step: 10, loss: 1 }, { step: 20, loss }] })),
    /^nothing can be decided: mha, the reference, overfits: its .* was 1\.0000 at step 10/);
    // Steps to learn of each seed; 0: it did not.
    assert.match(judge({ mha: [64, five(100)], mqa: [16, five(100)], mfa: [8, five(0)] },
      (learned) => ({ step: learned || 400, loss: 1, answers: 0.5, learned }),
      { baselines: { guesser: 0.1 }, steps: 400 }),
    /^mqa is enough: 25 % .* at \+0 % steps \(.*; mfa has not learned in 400 steps/);
  },
  "recall has questions, whose answers stand behind their keys"() {
    const engine = load(wasm), { settings } = engine.call({ do: "start",
      settings: { data: "recall", pairs: 6, "line-length": 32, attention: "mqa", steps: 2,
        batch: 4 } });
    assert.deepEqual(["stop-at-answers", "eval-every", "pairs"].map((name) => settings[name]),
      [95, 10, 6]);
    engine.call({ do: "step", steps: 2 });
    const { questions } = engine.call({ do: "text" });
    assert.ok(questions.length > 50);
    for (const { prompt, answer } of questions)
      assert.equal(recallAnswer(prompt, 6), answer, prompt);
    const prompt = randomRecall(vocabularyOf(engine.save()), 6);
    assert.equal([...engine.call({ do: "ask", prompt, tokens: 1 }).text].length, 1);
    assert.ok(engine.call({ do: "evaluate", tokens: 2000 }).questions > 300);
  },
  "a model's characters tell its text"() {
    const engine = load(wasm);
    for (const [settings, told] of [[{ data: "lookup", directions: 3 }, ["directions"]],
      [{ data: "recall", pairs: 4, symbols: 64, "line-length": 16, context: 16 },
        ["symbols", "line-length", "pairs"]], [{ data: "tales" }, []]]) {
      const { context } = engine.call({ do: "start", settings: { layers: 1, ...settings } });
      const found = writtenWith(vocabularyOf(engine.save()), context);
      assert.deepEqual(Object.keys(found), ["data", ...told]);
      for (const name of Object.keys(found)) assert.equal(found[name], settings[name], name);
    }
  },
  "training lowers the loss, and pausing changes no bit"() {
    const engine = load(wasm), other = load(wasm);
    for (const each of [engine, other]) each.call({ do: "start", settings: kLookup });
    const first = engine.call({ do: "step", steps: 20 });
    for (let i = 0; i < 80; ++i) engine.call({ do: "step", steps: 1 });
    const last = engine.call({ do: "step", steps: 100 });
    assert.equal(last.step, 200);
    assert.ok(last.loss < first.loss / 2, `${first.loss} to ${last.loss}`);
    other.call({ do: "step", steps: 100 });
    assert.equal(other.call({ do: "step", steps: 1000 }).loss, last.loss);
    const evaluation = engine.call({ do: "evaluate", tokens: 4000 });
    assert.ok(evaluation.answers > evaluation.baselines.commonest, `${evaluation.answers}`);
    const right = evaluation.answers * evaluation.questions;
    assert.ok(evaluation.questions > 500 && Math.abs(right - Math.round(right)) < 1e-6,
      `${evaluation.answers} of ${evaluation.questions} questions`);
    assert.equal(engine.call({ do: "step", steps: 1 }).loss, null);
  },
  "a saved model gives the program the same text, and opens again"() {
    const engine = trained({ data: "tales", attention: "mla", steps: 30, layers: 1, dim: 32,
      context: 64 }, 30);
    const question = { do: "ask", prompt: "Anna is in the ", tokens: 20, temperature: 0 };
    const answer = engine.call(question);
    const files = engine.save(), saved = `${folder}/saved`;
    mkdirSync(saved);
    for (const { name, bytes } of files) writeFileSync(`${saved}/${name}`, bytes);
    const expected = ["f32", "f16", "int8", "int4", "int2+layer1=f32", "int2"].map((cache) => {
      const { text, steps, cache: layers } = engine.call({ ...question, cache });
      const sample = headcount("sample", "--from", saved, "--prompt", question.prompt, "--tokens",
        "20", "--temperature", "0", "--cache-dtype", cache);
      assert.ok(sample.includes(text), `${cache}: ${sample} without ${text}`);
      assert.equal(drawnBytes(layers, 64),
        countedBytes("mla", "--layers", "1", "--cache-dtype", cache), cache);
      for (const { divergence } of steps)
        assert.equal(cache === "f32", divergence === undefined, `${cache}: ${divergence}`);
      return { probabilities: steps.at(-1).probabilities,
        most: Math.max(...steps.map(({ divergence }) => divergence)) };
    });
    assert.ok(expected[4].most < 1e-9 && expected[1].most < expected[3].most &&
      expected[3].most < expected[5].most, JSON.stringify(expected));
    const [exact, two] = [expected[0], expected.at(-1)].map(({ probabilities }) => probabilities);
    assert.notDeepEqual(two, exact); // two bits are not as good as 32
    const again = load(wasm);
    again.open(files);
    assert.deepEqual(again.call(question), answer);
    assert.match(again.error({ do: "step", steps: 1 }), /opened from files/);
  },
  "an opened model says all settings that training it again needs"() {
    const engine = load(wasm);
    const shape = { data: "tales", layers: 2, dim: 32, context: 64 };
    const settingsOf = (settings) => {
      engine.call({ do: "start", settings: { ...shape, ...settings } });
      const files = engine.save();
      const { spec, changed, ...opened } = engine.open(files, "tales");
      const { heads } = opened.settings;
      const again = engine.call({ do: "plan",
        settings: { ...shape, heads, ...changed, attention: spec } });
      assert.deepEqual(again.cache, opened.cache);
      assert.equal(again.parameters, opened.parameters);
      const inSpec = spec.includes("/") ? ["attention", "sinks"] : []; // of a pattern
      for (const [name, value] of Object.entries(opened.settings)) {
        if (name in again.settings && !inSpec.includes(name)) // idle ones are not
          assert.deepEqual(again.settings[name], value, `${name} of ${spec}`);
      }
      return [spec, changed];
    };
    assert.deepEqual(settingsOf({ attention: "gqa2:tie-kv=on", gate: "on", window: 8 }),
      ["gqa2:gate=on:tie-kv=on@8", {}]);
    assert.deepEqual(settingsOf({ attention: "mqa/share", sinks: "on", bias: "on" }),
      ["mqa:sinks=on/share", { bias: "on" }]);
    assert.deepEqual(settingsOf({ attention: "mla", "rope-dim": 4, positions: "rope",
      "ffn-dim": 40, "score-scale": "none" }),
    ["mla12+4:score-scale=none", { "ffn-dim": 40 }]);
    assert.deepEqual(settingsOf({ attention: "mha", heads: 6, "head-dim": 4 }), ["mhax4", {}]);
  },
  "an answer shows probabilities, weights and a cache that fills"() {
    const engine = trained(kLookup, 200);
    const { questions, validation } = engine.call({ do: "text" });
    assert.ok(questions.length > 5 && validation.length > 300);
    const { prompt } = questions[0];
    const { text, steps, cache } = engine.call({ do: "ask", prompt, tokens: 3 });
    assert.equal([...text].length, 3);
    steps.forEach((step, i) => {
      assert.equal(step.probabilities[0].character, step.character);
      const held = [...prompt].length + i;
      assert.equal(drawnBytes(cache, held), held * 8 * 8 * 2 * 4);  // 8 heads of width 8, k and v
      for (const head of step.weights[0]) {
        assert.equal(head.length, held);
        assert.ok(Math.abs(head.reduce((sum, weight) => sum + weight, 0) - 1) < 0.01);
      }
    });
  },
  "errors say what is wrong, and the session goes on"() {
    const engine = trained(kLookup, 10);
    const text = engine.call({ do: "text" });
    const plan = (settings) => engine.error({ do: "plan", settings });
    assert.match(plan({ text: "a".repeat(1000) }), /one symbol only/);
    assert.match(plan({ text: "ab", context: 64 }), /^Your text has 2 .* needs about 650\. Paste/);
    assert.match(plan({ ...kLookup, lr: -1 }), /`lr`/);
    assert.match(plan({ ...kLookup, dim: 1 << 20, layers: 9999 }), /./);
    assert.match(engine.error({ do: "start", settings: { ...kLookup, data: "none.txt" } }),
      /no text 'none.txt'/);
    assert.match(engine.error({ do: "ask", prompt: "xyz" }), /lacks 'x'/);
    assert.match(engine.error({ do: "ask", prompt: "" }), /empty/);
    assert.match(engine.error({ do: "dance" }), /no request/);
    assert.match(engine.error({}), /./);
    assert.deepEqual(engine.call({ do: "text" }), text);
    assert.equal(engine.call({ do: "step", steps: 1 }).step, 11);
  },
  "a training that diverges says so"() {
    const engine = load(wasm);
    engine.call({ do: "start", settings: { ...kLookup, lr: 100, "min-lr": 100, warmup: 0,
      "grad-clip": 0 } });
    let error;
    for (let i = 0; i < 200 && error === undefined; ++i)
      error = engine.error({ do: "step", steps: 1 });
    assert.match(error, /at step \d+; .*lower `lr`/);
  },
  "an own text is learned and asked"() {
    const text = "the cat sat on the mat, und die Käuzchen schlafen. ".repeat(60);
    const settings = { text, data: "cats.txt", layers: 1, dim: 32, context: 32, lr: 5e-3 };
    const engine = trained(settings, 60);
    const { baselines, vocabulary } = engine.call({ do: "plan", settings });
    assert.deepEqual([baselines, vocabulary], [null, new Set(text).size]);
    assert.equal(engine.call({ do: "evaluate", tokens: 200 }).answers, null);
    assert.equal(engine.call({ do: "ask", prompt: "die Käuz", tokens: 4 }).steps.length, 4);
  },
};

for (const [name, body] of Object.entries(tests)) test(name, body);
