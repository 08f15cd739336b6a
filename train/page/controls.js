// Sliders over lists of values, and marks of attentions.
import { mark } from "../view/plot.js";
import { elementOf, h, setText, Views } from "./dom.js";

// The mark of an attention before its name in a text.
export const markBefore = (style) => elementOf('<svg class="sign" viewBox="-8 -8 16 16" ' +
  `aria-hidden="true">${mark(style, 0, 0, "")}</svg>`);

class Slider {
  constructor(change) {
    Object.assign(this, { name: h("span"), shown: h("output") });
    this.input = h("input", {
      type: "range", min: 0, step: 1, oninput: () => {
        this.say();
        change(this.values[this.input.valueAsNumber]);
      },
    });
    this.element = h("label", { class: "slider" }, this.name, this.shown, this.input);
  }
  set({ label, help = "", values, value, text = String }) {
    const { element, input } = this;
    this.values = [...new Set([...values, value])].sort((a, b) => a - b);
    this.text = text;
    setText(this.name, label);
    element.title = input.title = help;
    input.setAttribute("aria-label", help ? `${label}: ${help}` : label);
    input.max = this.values.length - 1;
    input.value = this.values.indexOf(value);
    this.say();
  }
  say() {
    const text = this.text(this.values[this.input.valueAsNumber]);
    setText(this.shown, text);
    this.input.setAttribute("aria-valuetext", text);
  }
}

// Sliders {name, label, help, values, value, text} in `host`; `change(name, value)` is called while
// one moves.
export class Sliders {
  constructor(host, change) {
    this.views = new Views(host, (name) => new Slider((value) => change(name, value)));
  }
  show(wanted) {
    this.views.show(wanted.map(({ name }) => name)).forEach((view, i) => view.set(wanted[i]));
  }
}
