// Elements made in one call, and messages between parts of the page.

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// HTML element. Attributes that begin with "on" are listeners; null and false leave one out.
export const h = (tag, attributes = {}, ...children) =>
  put(document.createElement(tag), attributes, children);

// SVG element.
export const s = (tag, attributes = {}, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export const byId = (id) => document.getElementById(id);

// Sets a text if it changed, so that screen readers and selections are left alone otherwise.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const listeners = new Map();

// Calls `listener` whenever `name` is told.
export function on(name, listener) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(listener);
}
export function tell(name, detail) {
  for (const listener of listeners.get(name) ?? []) listener(detail);
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

// Says a sentence to screen readers without moving the focus.
export function say(text) {
  setText(byId("said"), text);
}
