// Sliders over a list of values, and marks of attentions.
import { mark } from "../view/plot.js";
import { h, s, setText } from "./dom.js";

// The mark of an attention before its name in a text.
export function markBefore(style) {
  const sign = s("svg", { class: "sign", viewBox: "-8 -8 16 16", "aria-hidden": "true" });
  sign.innerHTML = mark(style, 0, 0, "");
  return sign;
}

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
