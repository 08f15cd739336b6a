// Numbers as text, as the program's reports write them.

const kUnknown = "–";

// Formats by decimals: to make one takes a hundred times as long as to use it.
const formats = new Map();
function formatOf(decimals) {
  if (!formats.has(decimals))
    formats.set(decimals, new Intl.NumberFormat("en-US",
      { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  return formats.get(decimals);
}

// "1,234.5", with a real minus sign; a dash for what is no number.
export function numberText(value, decimals = 0) {
  if (!Number.isFinite(value)) return kUnknown;
  const text = formatOf(decimals).format(Math.abs(value));
  return value < 0 && /[1-9]/.test(text) ? "−" + text : text;
}

// "+1.2" and "−1.2".
export function signedText(value, decimals) {
  const text = numberText(value, decimals);
  return value > 0 && /[1-9]/.test(text) ? "+" + text : text;
}

// "1.2 ± 0.3"; `text` alone if there is no interval.
export const withInterval = (text, half, decimals) => Number.isFinite(half)
  ? `${text} ± ${numberText(half, decimals)}` : text;

// "64 B", "1.5 KiB", "2 TiB".
export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.length; ++unit) bytes /= 1024;
  const tenths = Math.round(bytes * 10) / 10;
  return `${numberText(tenths, Number.isInteger(tenths) ? 0 : 1)}\u00a0${units[unit]}`;
}

// A share as a percentage: "99.8 %".
export const percentText = (share, decimals = 1) => `${numberText(100 * share, decimals)}\u00a0%`;

// "under a second", "40 s", "3 min", "1.5 h".
export function durationText(seconds) {
  if (!Number.isFinite(seconds)) return kUnknown;
  if (seconds < 1) return "under a second";
  if (seconds < 90) return `${Math.round(seconds)}\u00a0s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)}\u00a0min`;
  return `${numberText(seconds / 3600, 1)}\u00a0h`;
}

// "1 seed", "3 seeds".
export const plural = (count, noun) => `${numberText(count)}\u00a0${noun}${count === 1 ? "" : "s"}`;

// "mha, gqa2 and mqa".
export function listText(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

// A character of a text as one visible sign in its place: marks that combine stand on a circle, and
// U+FFFD stands for controls, signs that turn the direction, and what is no character.
export const visible = (c) => ({ "\n": "↵", "\t": "⇥" })[c] ??
  (/^\p{M}/u.test(c) ? `\u25cc${c}` : /^[\p{C}\p{Zl}\p{Zp}]/u.test(c) ? "\ufffd" : c);

// The same where a space alone would not be seen.
export const shownCharacter = (c) => c === " " ? "␣" : visible(c);

// Mean of numbers; NaN of none.
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
