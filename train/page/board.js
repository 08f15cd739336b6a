// The board of lookups as an editor for a question.
import { Sliders } from "./controls.js";
import { button, h, setText } from "./dom.js";
import { isOnLine, kPieces, kSide, kSquares, kValues, lookupAnswer, pieceCharacter, piecesIn,
  questionLetters } from "../view/lookups.js";
import { upTo } from "./specs.js";
import { randomPieces } from "./texts.js";

const squareText = (square) =>
  `column ${square % kSide + 1}, row ${Math.floor(square / kSide) + 1}`;

const textOf = (pieces, letter) =>
  pieces.map(({ square, value }) => pieceCharacter(square, value)).join("") + letter;

// Editor of a board and a question on it. `change(text)` is called with the question as text.
export class Board {
  constructor(change) {
    this.change = change;
    this.pieces = randomPieces();
    this.letter = "A";
    this.squares = Array.from({ length: kSquares }, (_, square) =>
      button("", () => this.click(square), { class: "square" }));
    this.letters = h("div", { class: "letters", role: "group", "aria-label": "question" });
    this.element = h("div", { class: "board-editor" },
      h("div", { class: "board", role: "group", "aria-label": "board of pieces" }, this.squares),
      button("Other pieces", () => this.shuffle(), { class: "plain" }));
    const what = "Click squares to place pieces and to change their values, 0 to 3, then to take " +
      "them away. Then ask for the value of the one piece on a line:";
    this.full = h("p", { class: "note", role: "status" });
    const slider = h("div", { class: "sliders" });
    this.sliders = new Sliders(slider, (_, count) => this.setDirections(count));
    this.questions = h("div", {}, h("p", { class: "note" }, what), this.full, this.letters, slider);
  }

  // A slider for as many directions as models have learned, and buttons for all of them.
  setMost(most) {
    this.sliders.show([{ name: "directions", label: "directions of lines", values: upTo(most),
      value: most, help: "columns, then diagonals, rows last" }]);
    this.setDirections(most);
  }
  setDirections(count) {
    if (this.buttons?.length === count * kSide) return;
    this.buttons = questionLetters(count).map((letter) => button(letter, () => this.ask(letter), {
      onmouseenter: () => this.showLine(letter), onmouseleave: () => this.showLine(this.letter),
      onfocus: () => this.showLine(letter), onblur: () => this.showLine(this.letter),
    }));
    this.letters.replaceChildren(...this.buttons);
    this.draw();
  }

  // Letters whose lines have one of the pieces.
  answerable(pieces) {
    return this.buttons.map((button) => button.textContent)
      .filter((letter) => lookupAnswer(pieces, letter) !== null);
  }
  // A random question that has an answer, as text.
  random(random) {
    for (;;) {
      const pieces = randomPieces(random), letters = this.answerable(pieces);
      if (letters.length)
        return textOf(pieces, letters[Math.floor(random() * letters.length)]);
    }
  }

  // Takes over pieces and question of a text that was typed.
  read(text) {
    const pieces = piecesIn(text);
    if (pieces.length) this.pieces = pieces;
    this.letter = [...text].at(-1) ?? "";
    this.draw();
  }

  click(square) {
    const at = this.pieces.findIndex((piece) => piece.square === square);
    const isFull = at < 0 && this.pieces.length >= kPieces;
    setText(this.full, isFull ? `All ${kPieces} pieces are on the board: click one until it is ` +
      "gone, then place it here." : "");
    if (isFull) return;
    if (at < 0) {
      this.pieces.push({ square, value: 0 });
    } else if (this.pieces[at].value + 1 < kValues) {
      ++this.pieces[at].value;
    } else {
      this.pieces.splice(at, 1);
    }
    this.changed();
  }
  shuffle() {
    this.pieces = randomPieces();
    const answerable = this.answerable(this.pieces);
    if (!answerable.includes(this.letter)) this.letter = answerable[0] ?? this.letter;
    this.changed();
  }
  ask(letter) {
    this.letter = letter;
    this.changed();
  }
  changed() {
    this.draw();
    this.change(textOf(this.pieces, this.letter));
  }

  draw() {
    this.squares.forEach((button, square) => {
      const piece = this.pieces.find((each) => each.square === square);
      setText(button, piece ? String(piece.value) : "");
      button.classList.toggle("piece", piece !== undefined);
      button.setAttribute("aria-label",
        `${squareText(square)}: ${piece ? `piece of value ${piece.value}` : "empty"}`);
    });
    for (const button of this.buttons ?? []) {
      const letter = button.textContent, answer = lookupAnswer(this.pieces, letter);
      button.disabled = answer === null;
      button.title = answer === null ? "not exactly one piece stands on this line" : "";
      button.setAttribute("aria-pressed", letter === this.letter);
    }
    this.showLine(this.letter);
  }
  showLine(letter) {
    this.squares.forEach((button, square) =>
      button.classList.toggle("on-line", isOnLine(letter, square)));
  }
}
