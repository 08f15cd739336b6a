// Sliders over lists of values, and marks of attentions.
import { mark } from "../view/plot.js";
import { h, s, setText } from "./dom.js";

// The mark of an attention before its name in a text.
export function markBefore(style) {
  const sign = s("svg", { class: "sign", viewBox: "-8 -8 16 16", "aria-hidden": "true" });
  sign.innerHTML = mark(style, 0, 0, "");
  return sign;
}

class Slider {
  constructor({ label, help, values, text = String }, change) {
    Object.assign(this, { values, text, shown: h("output") });
    this.input = h("input", {
      type: "range", min: 0, max: values.length - 1, step: 1, title: help,
      "aria-label": help ? `${label}: ${help}` : label,
      oninput: () => {
        this.say();
        change(values[this.input.valueAsNumber]);
      },
    });
    this.element = h("label", { class: "slider", title: help },
      h("span", {}, label), this.shown, this.input);
  }
  set(value) {
    this.input.value = this.values.indexOf(value);
    this.say();
  }
  say() {
    const text = this.text(this.values[this.input.valueAsNumber]);
    setText(this.shown, text);
    this.input.setAttribute("aria-valuetext", text);
  }
}

// Sliders {name, label, help, values, value, text} in `host`; `change(name, value)` is called while
// one moves. They are kept while their values are: replacing one would end its dragging.
export class Sliders {
  constructor(host, change) {
    Object.assign(this, { host, change, all: new Map(), signature: "" });
  }
  show(wanted) {
    const sliders = wanted.map((each) => ({ ...each,
      values: [...new Set([...each.values, each.value])].sort((a, b) => a - b) }));
    const signature = JSON.stringify(sliders.map(({ name, values }) => [name, values]));
    if (signature !== this.signature) {
      const [focused] = [...this.all].find(([, { input }]) => input === document.activeElement)
        ?? [];
      this.signature = signature;
      this.all = new Map(sliders.map((each) => [each.name,
        new Slider(each, (value) => this.change(each.name, value))]));
      this.host.replaceChildren(...[...this.all.values()].map(({ element }) => element));
      this.all.get(focused)?.input.focus();
    }
    for (const { name, value } of sliders) this.all.get(name).set(value);
  }
}
