// Attentions as text ("gqa2x16@64/share", see nn/attention/README.md) and as places of sliders.
//
// A choice: {kind, numbers, width, named, window, share, own}. `numbers` has the settings that
// stand after the kind's name, by name; 0 or absent is the engine's default. `named` is the text of
// others (":gate=on"), which no slider changes. `share` layers read one cache. `own`, if not empty,
// is the whole text of an attention that no sliders can say.

// Kinds of the engine, as its reply to "kinds" has them: [{name, summary, attends, numbers}].
export const kinds = [];

export const kindOf = (choice) => kinds.find((kind) => kind.name === choice.kind);

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
  compress: ["tokens per row", "tokens beyond the window that one pooled row stands for"],
  "index-topk": ["rows picked", "pooled rows that a token reads"],
  window: ["window", "tokens that a layer reads and keeps"],
  share: ["layers per cache", "layers that read one cache"],
};
export const labelOf = (name) => kNames[name]?.[0] ?? name;
export const helpOf = (name, help = "") => kNames[name]?.[1] ?? help;

// Spec of a choice, such as "gqa2@16".
export function specOf(choice) {
  if (choice.own) return choice.own;
  const numbers = kindOf(choice).numbers.map(({ name }) => choice.numbers[name]);
  let text = choice.kind;
  if (numbers.some((value) => value !== undefined)) {
    text += numbers.slice(0, 1 + numbers.findLastIndex((value) => value !== undefined))
      .map((value) => value ?? 0).join("+");
  }
  if (choice.width) text += `x${choice.width}`;
  text += choice.named;
  if (choice.window) text += `@${choice.window}`;
  if (choice.share === 2) text += "/share";
  if (choice.share > 2) text += `/${choice.share - 1}*share`;
  return text;
}

// Choice of a kind with the engine's sizes.
const plainChoice = (kind) =>
  ({ kind, numbers: {}, width: 0, named: "", window: 0, share: 1, own: "" });

// Choice of a spec; one with `own` if the sliders cannot express it.
export function choiceOf(text) {
  const beginning = kinds.filter(({ name }) => text.startsWith(name))
    .sort((a, b) => b.name.length - a.name.length);
  for (const kind of beginning) {
    const parts =
      /^(\d+(?:\+\d+)*)?(?:x(\d+))?((?::[^:@/]+)*)(?:@(\d+))?(\/(?:(\d+)\*)?share)?$/.exec(
        text.slice(kind.name.length));
    if (!parts) continue;
    const [, numbers, width, named, window, share, shares] = parts;
    const given = numbers ? numbers.split("+").map(Number) : [];
    const onSliders = ["head-dim", "window", ...kind.numbers.map(({ name }) => name)];
    if (given.length > kind.numbers.length ||
      onSliders.some((name) => named.includes(`:${name}=`))) continue;
    return {
      ...plainChoice(kind.name),
      numbers: Object.fromEntries(given.map((value, i) => [kind.numbers[i].name, value])),
      width: Number(width ?? 0),
      named,
      window: Number(window ?? 0),
      share: share ? Number(shares ?? 1) + 1 : 1,
    };
  }
  return { ...plainChoice(""), own: text };
}

// Choice for a kind that was just named. Sizes are the engine's defaults, but a latent has no
// rotary key where positions are none, and pooled rows need a window beside them.
export function firstChoice(name, settings) {
  const choice = plainChoice(name);
  const numbers = kindOf(choice).numbers.map((number) => number.name);
  if (numbers.includes("rope-dim") && settings.positions === "none") {
    const width = settings["head-dim"] || settings.dim / settings.heads;
    Object.assign(choice.numbers, { "kv-rank": 4 * width, "rope-dim": 0 });
  }
  if (numbers.includes("compress")) {
    choice.numbers.compress = 4;
    if (numbers.includes("index-topk")) choice.numbers["index-topk"] = 2;
    choice.window = Math.max(4, (settings.context ?? 64) / 4);
  }
  return choice;
}

export function divisors(number) {
  return Array.from({ length: number }, (_, i) => i + 1).filter((i) => number % i === 0);
}

// The values of a slider, in order. `settings` are the resolved ones of the attention.
function valuesOf(name, settings) {
  const most = { window: settings.context / 2, "head-dim": 64, "v-dim": 64, "kv-rank": 128 }[name];
  switch (name) {
    case "kv-heads":
      return divisors(settings.heads);
    case "share":
      return Array.from({ length: settings.layers }, (_, i) => i + 1);
    case "window":
      return [0, ...kGrowing.filter((value) => value <= most)];
    case "rope-dim":
      return [0, ...kGrowing.filter((value) => value % 2 === 0 && value <= 64)];
    case "head-dim":
      return kGrowing.filter((value) => value % 2 === 0 && value <= most);
    default:
      return kGrowing.filter((value) => value <= (most ?? 64));
  }
}

// The sliders of a choice: [{name, label, help, values, value, text}], `value` the present one and
// text(value) what is shown. `settings` are the engine's, with defaults filled in.
export function slidersOf(choice, settings) {
  if (choice.own) return [];
  const kind = kindOf(choice);
  const numbers = kind.numbers.map(({ name, help }) => ({ name, help, own: true }));
  const all = [...numbers];
  if (!numbers.some(({ name }) => name === "head-dim")) all.push({ name: "head-dim" });
  if (kind.attends) all.push({ name: "window" });
  if (settings.layers > 1) all.push({ name: "share" });
  return all.map(({ name, help, own }) => {
    const given = own ? choice.numbers[name]
      : { "head-dim": choice.width, window: choice.window, share: choice.share }[name];
    const value = given || own && given === 0 ? given : settings[name];
    const values = valuesOf(name, settings);
    if (value !== undefined && !values.includes(value)) values.push(value);
    values.sort((a, b) => a - b);
    const text = (v) => name === "window" && v === 0 ? "all" : String(v ?? "–");
    return { name, label: labelOf(name), help: helpOf(name, help), values, value, text };
  }).filter(({ values, value }) => value !== undefined && values.length > 1);
}

// Changes one setting of a choice. A kind's numbers stand in a fixed order, so that those before it
// are written out, too.
export function changeChoice(choice, name, value, settings) {
  if (name === "share" && value > 1) { // the engine's defaults are of layers that are all alike
    for (const number of kindOf(choice).numbers)
      choice.numbers[number.name] ??= settings[number.name];
    choice.width ||= kindOf(choice).numbers.some((n) => n.name === "head-dim") ? 0
      : settings["head-dim"] ?? 0;
  }
  if (name === "window" || name === "share") choice[name] = value;
  else if (name === "head-dim" && !kindOf(choice).numbers.some((n) => n.name === name))
    choice.width = value;
  else {
    for (const number of kindOf(choice).numbers) {
      choice.numbers[number.name] ??= settings[number.name];
      if (number.name === name) break;
    }
    choice.numbers[name] = value;
  }
}
