// Attentions as text for the engine, which reads and shortens it, and as places of sliders.
//
// A choice is {kind, given, share}: settings that differ from the defaults, by name, and how many
// layers read one cache; or {own, written}, the text of an attention that no sliders can say, or
// that the engine has not read yet. `written`: it stays a text.

// Kinds of the engine, as its reply to "kinds" has them: [{name, summary, attends, numbers}].
export const kinds = [];

export const kindOf = (choice) => kinds.find((kind) => kind.name === choice.kind);
const numbersOf = (choice) => kindOf(choice).numbers.map(({ name }) => name);
// Sizes of a choice's layers, as far as its kind has them.
const sizesOf = (choice) => [...numbersOf(choice), "head-dim", "state-dim"];

// Slider values that grow by about a half, up to 1024.
const kGrowing = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];

// Names and explanations of settings that a first-time reader meets; others keep the engine's own.
const kNames = {
  "kv-heads": ["KV heads", "heads whose keys and values are kept"],
  "kv-rank": ["latent", "numbers of the latent that keys and values are made from"],
  "rope-dim": ["rotary key", "numbers of the key that knows positions"],
  "head-dim": ["head width", "numbers of a key and of a value"],
  "latent-dim": ["z width", "numbers that are kept for each head besides key and value"],
  "kv-factors": ["factors", "products of which keys and values are the mean"],
  "v-dim": ["value width", "columns of a head's state"],
  "state-dim": ["state numbers", "rows of a head's state, which does not grow with the text"],
  compress: ["tokens per row", "tokens beyond the window that one pooled row stands for"],
  "index-topk": ["rows picked", "pooled rows that a token reads"],
  window: ["window", "tokens that a layer reads and keeps"],
  share: ["layers per cache", "layers that read one cache"],
};

// Spec of a choice, with the names of its settings: "gqa:kv-heads=2/share".
export function specOf({ own, kind, given, share }) {
  if (own) return own;
  const settings = Object.entries(given).map(([name, value]) => `:${name}=${value}`).join("");
  return kind + settings + (share > 1 ? `/${share - 1}*share` : "");
}

// Choice for a kind that was just named. Sizes are the engine's defaults, but a latent has no
// rotary key where positions are none, and pooled rows need a window beside them.
export function firstChoice(name, settings) {
  const given = {}, numbers = numbersOf({ kind: name });
  if (numbers.includes("rope-dim") && settings.positions === "none") {
    const width = settings["head-dim"] || settings.dim / settings.heads;
    Object.assign(given, { "kv-rank": 4 * width, "rope-dim": 0 });
  }
  if (numbers.includes("compress")) {
    given.compress = 4;
    if (numbers.includes("index-topk")) given["index-topk"] = 2;
    given.window = Math.max(4, (settings.context ?? 64) / 4);
  }
  return { kind: name, given, share: 1 };
}

export const upTo = (count) => Array.from({ length: count }, (_, i) => i + 1);
export const divisors = (number) => upTo(number).filter((i) => number % i === 0);

// The values of a slider, in order. `settings` are the resolved ones of the attention.
function valuesOf(name, { heads, layers, context }) {
  const most = { window: context / 2, "kv-rank": 128, "state-dim": 128 }[name] ?? 64;
  const grown = kGrowing.filter((value) => value <= most), even = grown.filter((n) => n % 2 === 0);
  return { "kv-heads": divisors(heads), share: upTo(layers), window: [0, ...grown],
    "rope-dim": [0, ...even], "head-dim": even }[name] ?? grown;
}

// The sliders of a choice: [{name, label, help, values, value, text}], `value` the present one and
// text(value) what is shown. `settings` are the engine's, with defaults filled in.
export function slidersOf(choice, settings) {
  if (choice.own) return [];
  const { attends, numbers } = kindOf(choice);
  const names = new Set([...sizesOf(choice), ...(attends ? ["window"] : []),
    ...(settings.layers > 1 ? ["share"] : [])]);
  return [...names].map((name) => {
    const [label, help] = kNames[name] ?? [name, numbers.find((each) => each.name === name)?.help];
    const value = name === "share" ? choice.share : choice.given[name] ?? settings[name];
    const text = (v) => name === "window" && v === 0 ? "all" : String(v);
    return { name, label, help, values: valuesOf(name, settings), value, text };
  }).filter(({ values, value }) => value !== undefined && values.some((each) => each !== value));
}

// Changes one setting of a choice. The engine's defaults are of layers that are all alike: where
// some share a cache, the others' sizes are written out.
export function changeChoice(choice, name, value, settings) {
  if (name === "share") choice.share = value;
  else choice.given[name] = value;
  if (choice.share === 1) return;
  for (const each of sizesOf(choice))
    if (settings[each] !== undefined) choice.given[each] ??= settings[each];
}
