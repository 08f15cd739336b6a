// The lookup text as a picture: a piece, the six lines through it, a question that names one.
import { kSide, letterOf } from "./lookups.js";
import { colourOf, path, picture, textAt, titled, xml } from "./plot.js";

export const kLookup = "A line of text shows five pieces, each with a value from 0 to 3, on " +
  "squares of a board of 5 x 5; a Braille character is a square and a value. Then letters ask: " +
  "each names a line of the board, in one of up to six directions, on which exactly one piece " +
  "stands; lines leave one edge and return at the opposite one. The answer is the value of that " +
  "piece; only answers count.";

const kSquare = 44;
const kDirections = ["column", "diagonal 1", "diagonal 2", "diagonal 3", "diagonal 4", "row"];
const kPiece = { square: 8, value: 2 }, kAsked = 2; // a direction
const lineOfPiece = (direction) => letterOf(direction, kPiece.square);

const colouredSquare = (direction, x, y, size) => xml`<rect class="${
  colourOf([1, 2, 3, 4, 5, 7][direction])} ${direction === kAsked ? "area" : "band"}" x="${x}" y="${
  y}" width="${size}" height="${size}">${titled(kDirections[direction])}</rect>\n`;

// Any other square shares exactly one line with the piece, which colours it.
function boardSquare(square, left, top) {
  const x = left + square % kSide * kSquare, y = top + Math.floor(square / kSide) * kSquare;
  const middle = kSquare / 2, isPiece = square === kPiece.square;
  const direction = kDirections.findIndex((_, n) => letterOf(n, square) === lineOfPiece(n));
  return (isPiece ? xml`<circle class="line c0" cx="${x + middle}" cy="${y + middle}" r="17">${
    titled("the piece")}</circle>\n`
    : colouredSquare(direction, x, y, kSquare)) +
    textAt(x + middle, y + middle + 4.5, isPiece ? kPiece.value : letterOf(direction, square),
      "middle", "label ink") + path("frame", xml`M${x} ${y}h${kSquare}v${kSquare}h${-kSquare}z`);
}

export function lookupPicture() {
  const left = 20, top = 48, right = left + kSide * kSquare + 26;
  const squares = Array.from({ length: kSide * kSide }, (_, i) => boardSquare(i, left, top));
  const names = kDirections.map((name, n) => colouredSquare(n, right, top + 24 + 22 * n, 16) +
    textAt(right + 28, top + 36 + 22 * n, `${lineOfPiece(n)}  ${name}`, "start",
      n === kAsked ? "label ink" : "ink"));
  return picture({ title: "A lookup: which piece stands on this line?", caption: kLookup,
    height: top + kSide * kSquare + 20 },
  squares.join("") + textAt(right, top + 12, "Six lines meet in the piece:") + names.join("") +
    textAt(right, top + 190, `Question ${lineOfPiece(kAsked)}: the piece on that line.`) +
    textAt(right, top + 211, `The answer is its value, ${kPiece.value}.`));
}
