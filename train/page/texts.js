// The texts to train on, and the grammar of recall.
import { kLetters, kPieces, kSide, kSquares, kValues, pieceCharacter } from "../view/lookups.js";

export const kLongestText = 2_000_000; // characters that may be pasted or dropped

// Each text with the settings that differ from the engine's defaults for it.
export const texts = {
  lookup: {
    name: "Lookups",
    what: "Pieces on a board, then questions about them. Each answer must be looked up.",
    settings: { data: "lookup" },
    temperature: 0,
    characters: 1, // what follows an answer is random, and never learned
  },
  recall: {
    name: "Recall",
    what: "Pairs of letters, then one of them again. Who learns first what stood behind it?",
    settings: { data: "recall" },
    temperature: 0,
    characters: 1, // as for lookups
  },
  tales: {
    name: "Tales",
    what: "Who goes where with what? Small stories that end in questions.",
    settings: { data: "tales", "eval-every": 0 },
    temperature: 0,
    characters: 60,
  },
  own: {
    name: "Your own text",
    what: "Paste or drop one, up to a few hundred kilobytes. It stays in this tab.",
    settings: {
      layers: 2, heads: 4, dim: 64, context: 64, batch: 16, steps: 1000, lr: 3e-3, warmup: 50,
      beta2: 0.95,
    },
    temperature: 0.8,
    characters: 120,
  },
};

// Settings of model and training that all attentions share: slider values, and texts that have it.
export const commonSettings = [
  { name: "steps", label: "steps", help: "batches that are learned from",
    values: [200, 500, 1000, 2000, 3000, 5000, 10000, 20000] },
  { name: "layers", label: "layers", help: "blocks of attention and feed-forward layer",
    values: [1, 2, 3, 4, 6, 8] },
  { name: "heads", label: "query heads", help: "heads that ask", values: [1, 2, 4, 8, 16] },
  { name: "dim", label: "width of the model", help: "numbers of the residual stream",
    values: [16, 32, 64, 96, 128, 192, 256] },
  { name: "context", label: "context", help: "characters that the model reads at once",
    values: [32, 64, 96, 128, 192, 256, 384, 512], only: ["recall", "tales", "own"] },
  { name: "batch", label: "batch", help: "sequences of a step", values: [1, 2, 4, 8, 16, 32, 64] },
  { name: "lr", label: "learning rate", help: "largest step of the weights",
    values: [3e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2] },
  { name: "directions", label: "directions of lines", help: "columns, then diagonals, rows last",
    values: [1, 2, 3, 4, 5, 6], only: ["lookup"] },
];
export const hasSetting = ({ only }, text) => !only || only.includes(text);

// --- Lookups: see view/lookups.js.

// Random numbers in [0, 1), always the same ones (MINSTD: Park and Miller 1988).
export const seeded = (seed) => () => (seed = (48271 * seed) % 2147483647) / 2147483647;

// Pieces of a random board.
export function randomPieces(random = Math.random) {
  const squares = Array.from({ length: kSquares }, (_, i) => i);
  return Array.from({ length: kPieces }, () => {
    const [square] = squares.splice(Math.floor(random() * squares.length), 1);
    return { square, value: Math.floor(random() * kValues) };
  });
}

// --- Recall: data/texts/mqar.cpp has the grammar.

// The letter that stood behind the last one of a line, which begins with `pairs` pairs; null if
// none did.
export function recallAnswer(text, pairs) {
  const letters = [...text], at = letters.indexOf(letters.at(-1));
  return at % 2 === 0 && at < Math.min(2 * pairs, letters.length - 1) ? letters[at + 1] : null;
}

// A random line up to its first question. The first half of `symbols` are a dot and the keys.
export function randomRecall(symbols, pairs) {
  const half = symbols.length / 2;
  const some = (list) => list.map((each) => [Math.random(), each]).sort(([a], [b]) => a - b)
    .slice(0, pairs).map(([, each]) => each);
  const keys = some(symbols.slice(1, half)), values = some(symbols.slice(half));
  return keys.map((key, i) => key + values[i]).join("") + some(keys)[0];
}

// --- Which text a model was trained on.

const kSymbolsOfTales = "\n\u2581.?ABCDEFGHIJMTWabcdefghiklmnoprstuvwxy"; // U+2581: a space
const kRecallSizes = { pairs: 4, "line-length": 16 }; // the defaults

// The text, `data`, and settings of it that follow from the symbols of a model's vocabulary and its
// context. How many pairs a line of recall had does not.
export function writtenWith(symbols, context = 0) {
  if (symbols.includes(pieceCharacter(1, 0))) {
    const letters = symbols.filter((symbol) => kLetters.includes(symbol)).length;
    return { data: "lookup", directions: Math.max(1, Math.floor(letters / kSide)) };
  }
  if ([...kSymbolsOfTales].every((symbol) => symbols.includes(symbol)) &&
      symbols.length === kSymbolsOfTales.length) return { data: "tales" };
  const [dot, ...letters] = symbols;
  if (dot !== "." || letters.length < 3 || letters.length % 2 === 0 ||
      !letters.every((letter) => /^\p{L}$/u.test(letter))) return { data: "own" };
  const line = context % kRecallSizes["line-length"] ? context : kRecallSizes["line-length"];
  const most = Math.min(Math.floor(line / 4), (symbols.length - 2) / 2);
  return { data: "recall", symbols: symbols.length, "line-length": line,
    pairs: Math.max(1, Math.min(kRecallSizes.pairs, most)) };
}
