// Lookups on a board of 5 x 5, whose grammar data/texts/lookup.cpp has: pieces, lines and answers,
// and small pictures of what a head looks at.
import { mean, percentText, shownCharacter } from "./format.js";
import { textAt } from "./plot.js";

export const kSide = 5, kPieces = 5, kValues = 4;
export const kSquares = kSide * kSide;
const kBraille = 0x2800;
export const kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcd";

// The character of a piece on a square, 0 to 24.
export const pieceCharacter = (square, value) =>
  String.fromCodePoint(kBraille + square + kSquares * value);

// The pieces [{square, value}] that a text begins with.
export function piecesIn(text) {
  const pieces = [];
  for (const character of text) {
    const code = character.codePointAt(0) - kBraille;
    if (code < 0 || code >= kSquares * kValues) break;
    pieces.push({ square: code % kSquares, value: Math.floor(code / kSquares) });
  }
  return pieces;
}

// Letter of the line in a direction, 0 to 5, on which a square lies.
export function letterOf(direction, square) {
  const x = square % kSide, y = Math.floor(square / kSide);
  return kLetters[direction * kSide + (direction === kSide ? y : (x + direction * y) % kSide)];
}

// Returns true if the square lies on the line that a letter names; false for other characters.
export function isOnLine(letter, square) {
  const at = kLetters.indexOf(letter);
  return at >= 0 && letterOf(Math.floor(at / kSide), square) === letter;
}

// The letters of the first kinds of question.
export const questionLetters = (count) => [...kLetters.slice(0, count * kSide)];

// Index of the one piece on the line that a letter names; -1 where not exactly one is.
export function askedPiece(pieces, letter) {
  const found = pieces.flatMap(({ square }, i) => isOnLine(letter, square) ? [i] : []);
  return found.length === 1 ? found[0] : -1;
}
// The answer to a question, a digit; null where not exactly one piece stands on its line.
export const lookupAnswer = (pieces, letter) => {
  const at = askedPiece(pieces, letter);
  return at < 0 ? null : String(pieces[at].value);
};

// What character `i` of a question is for the letter that asks, if it is one of the pieces, which
// come first; null for others. Braille signs are hard to tell apart, and one of them is blank.
export function pieceText(pieces, letter, i) {
  if (i >= pieces.length) return null;
  const asked = askedPiece(pieces, letter);
  return i === asked ? "the right piece"
    : `a ${asked < 0 ? "" : "wrong "}piece, of value ${pieces[i].value}`;
}

// Sentence on where `heads` [{name, weights}] look of a model that answers `said` after the
// characters of a question, each with their weights.
export function lookingText(characters, heads, said) {
  const pieces = piecesIn(characters.join("")), letter = characters.at(-1);
  const at = askedPiece(pieces, letter), percent = (value) => percentText(value, 0);
  if (at < 0 || !heads.length) return "";
  if (said === lookupAnswer(pieces, letter)) {
    const [best] = [...heads].sort((a, b) => b.weights[at] - a.weights[at]);
    return `Of its heads, ${best.name} looks most at the piece on the line, with ${
      percent(best.weights[at])} of its weight.`;
  }
  const shares = characters.map((_, i) => mean(heads.map(({ weights }) => weights[i] ?? 0)));
  const most = shares.indexOf(Math.max(...shares));
  if (most === at) return "Its heads look most at the right piece, with " +
    `${percent(shares[at])} of their weight, which is not enough.`;
  const where = pieceText(pieces, letter, most) ??
    `${shownCharacter(characters[most])}, which is no piece`;
  return `Its heads look most at ${where}, with ${percent(shares[most])} of their weight; the ` +
    `right piece has ${percent(shares[at])}.`;
}

// Small board as SVG with pieces shaded by attention weights; `shadeOf(i)` is the class of piece i,
// and `letter` the question whose line is outlined.
export function smallBoard(pieces, letter, shadeOf) {
  const size = 14, side = kSide * size;
  const squares = Array.from({ length: kSquares }, (_, square) => {
    const x = size * (square % kSide + 0.5), y = size * (Math.floor(square / kSide) + 0.5);
    const at = pieces.findIndex((piece) => piece.square === square), isFree = at < 0;
    const shade = isFree ? "" : shadeOf(at);
    return `<rect class="field ${shade}" x="${x - size / 2}" y="${y - size / 2}" ` +
      `width="${size}" height="${size}"/>` +
      (isOnLine(letter, square) ? `<circle class="line-${isFree ? "dot" : "ring"} ${shade}" ` +
        `cx="${x}" cy="${y}" r="${isFree ? 1.5 : 6}"/>` : "") +
      (isFree ? "" : textAt(x, y + 3.5, pieces[at].value, "middle", `piece ${shade}`));
  });
  return `<svg class="small-board w" viewBox="0 0 ${side} ${side}" aria-hidden="true">${
    squares.join("")}</svg>`;
}
