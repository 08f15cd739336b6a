// Elements made in one call, and messages between parts of the page.

// HTML element. Attributes that begin with "on" are listeners; null and false leave one out.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// The one element of a text in HTML, a picture for example.
export function elementOf(html) {
  const template = h("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

export const button = (text, onclick, attributes = {}) =>
  h("button", { type: "button", onclick, ...attributes }, text);

export const byId = (id) => document.getElementById(id);

// Sets a text if it changed, so that screen readers and selections are left alone otherwise.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The files that a button or a drop gives go to `take`.
export function onFiles(id, take) {
  byId(id).addEventListener("change", ({ target }) => {
    const files = [...target.files];
    target.value = "";
    if (files.length) take(files);
  });
}

// Views {element} of things, each made once by `make`, as the children of `host`.
export class Views {
  constructor(host, make) {
    Object.assign(this, { host, make, all: new Map() });
  }
  // The views of `things`, in their order. Elements that stay keep their focus, and are left alone
  // if they are the only ones.
  show(things) {
    this.all = new Map(things.map((thing) => [thing, this.all.get(thing) ?? this.make(thing)]));
    const views = [...this.all.values()], { children } = this.host;
    if (views.length !== children.length ||
        views.some(({ element }, i) => children[i] !== element)) {
      const focused = document.activeElement;
      this.host.replaceChildren(...views.map(({ element }) => element));
      if (this.host.contains(focused)) focused.focus();
    }
    return views;
  }
}

const listeners = new Map();

// Calls `listener` whenever one of `names`, a word each, is told.
export function on(names, listener) {
  for (const name of names.split(" "))
    listeners.set(name, [...listeners.get(name) ?? [], listener]);
}
export function tell(name) {
  for (const listener of listeners.get(name) ?? []) listener();
}

// Function that runs `action`, and once more if it was called meanwhile.
export function oneAtATime(action) {
  let isRunning = false, isAsked = false;
  return async () => {
    isAsked = true;
    if (isRunning) return;
    isRunning = true;
    try {
      for (; isAsked; await action()) isAsked = false;
    } finally {
      isRunning = false;
    }
  };
}

const kBetween = 120; // ms between two paintings of what changes all the time

// Function that calls `action` soon, before the browser paints, however often it is called. A
// hidden tab paints nothing; it is drawn when it is seen again.
export function beforePaint(action) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    setTimeout(() => requestAnimationFrame(() => {
      asked = false;
      action();
    }), kBetween);
  };
}

// Says what became of files, below the block of the page that they were dropped on or chosen in.
// The next such sentence, "" for success alone, takes its place.
export function noteFiles(text, { isError = false, block = null } = {}) {
  const note = byId("opened");
  (block ?? byId("open-block")).after(note);
  note.classList.toggle("error", isError);
  setText(note, text);
  if (isError) note.scrollIntoView({ block: "nearest" });
}

// Says a sentence to screen readers without moving the focus.
export function say(text) {
  setText(byId("said"), text);
}
