// Sliders over a list of values, and marks of attentions.
import { h, s, setText } from "./dom.js";

const kShapes = [
  "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0z", // circle
  "M-5 -5H5V5H-5z", // square
  "M0 -6.5L6.2 4.5H-6.2z", // triangle
  "M0 -7L6 0L0 7L-6 0z", // diamond
];

// The mark of an attention inside an SVG picture.
export const markAt = (style, x, y, title) =>
  s("path", { class: `mark c${style}`, d: kShapes[style], transform: `translate(${x} ${y})` },
    title ? s("title", {}, title) : null);

// The mark of an attention before its name in a text.
export const markBefore = (style) =>
  s("svg", { class: "sign", viewBox: "-8 -8 16 16", "aria-hidden": "true" }, markAt(style, 0, 0));

// Slider {name, label, help, values, value, text}; `change(value)` is called while it moves.
export class Slider {
  constructor({ label, help, values, value, text = String }, change) {
    this.values = values;
    this.text = text;
    this.shown = h("output");
    this.input = h("input", {
      type: "range", min: 0, max: values.length - 1, step: 1, title: help,
      oninput: () => {
        this.say();
        change(values[this.input.valueAsNumber]);
      },
    });
    this.element = h("label", { class: "slider", title: help },
      h("span", {}, label), this.shown, this.input);
    this.input.setAttribute("aria-label", help ? `${label}: ${help}` : label);
    this.set(value);
  }
  set(value) {
    let at = this.values.indexOf(value);
    if (at < 0) at = this.values.findIndex((each) => each >= value);
    if (at < 0) at = 0;
    this.input.value = at;
    this.say();
  }
  say() {
    const text = this.text(this.values[this.input.valueAsNumber]);
    setText(this.shown, text);
    this.input.setAttribute("aria-valuetext", text);
  }
}
