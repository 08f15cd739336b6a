// Text whose characters are shaded by a number each, such as a loss or an attention weight.
import { visible } from "./format.js";
import { escaped } from "./plot.js";

// Least values of four shades, from light to dark.
export const kWeightShades = [0.03, 0.1, 0.3, 0.6]; // attention weights
export const kLossShades = [0.1, 0.5, 1, 2]; // nats

// Class of the shade of a number, l1 to l4, or "" for none.
export function shadeOf(value, shades) {
  const level = shades.filter((least) => value >= least).length;
  return level ? `l${level}` : "";
}

// HTML of the characters, neighbours that look alike in one element. `hovers` are texts on
// pointing, `answers` the positions of answers.
export function shadedText(characters, values, shades, { hovers = [], answers = [] } = {}) {
  let out = "", run = "", last = "";
  const flush = () => {
    if (run) out += last ? `<i${last}>${run}</i>` : run;
    run = "";
  };
  characters.forEach((character, at) => {
    const classes = [shadeOf(values[at], shades), answers.includes(at) ? "d"
      : ""].filter(Boolean).join(" ");
    const next = (classes && ` class="${classes}"`) + (hovers[at]
      ? ` title="${escaped(hovers[at])}"` : "");
    if (next !== last) flush();
    last = next;
    run += escaped(visible(character)) + (character === "\n" ? "\n" : "");
  });
  flush();
  return out;
}
