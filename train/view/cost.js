// Pictures of what KV caches cost, from the program's figures of `cost`: {contexts, batch, caches:
// [{spec, cache, points: [[tokens, bytes]]}], room: {bytes, name}}. Each is {title, caption, svg}.
import { cachesPicture } from "./cache_picture.js";
import { bytesText, numberText, plural } from "./format.js";
import { chart } from "./plot.js";

function cachesToScale({ contexts, caches }) {
  const drawn = caches.filter(({ cache }) => cache?.length);
  if (!drawn.length) return null;
  const ends = [...new Set([contexts[0], contexts.at(-1)])];
  const title = "The cache of one sequence, layer by layer";
  const caption = "To scale: equal areas are equal bytes. Layers stand side by side. The width of " +
    "a layer is what a token adds to it, with borders between heads where there is room; the " +
    "height is the tokens that it stores, in a frame as high as all tokens. A state, which does " +
    `not grow, is spread over ${numberText(ends[0])} tokens.`;
  return { title, caption, svg: cachesPicture(drawn, { title, caption, contexts: ends }) };
}

function bytesAgainstContext({ batch, caches, room }) {
  const series = caches.map(({ spec, points }, style) => ({ name: spec, style,
    points: points.filter(([, bytes]) => bytes > 0).map(([x, y]) =>
      ({ x, y, hover: `${spec}, ${numberText(x)} tokens: ${bytesText(y)}` })) }));
  const title = `Cache of ${plural(batch, "sequence")} against context`;
  const caption = room ? `Where a line crosses the level line, ${room.name}, the memory is full.`
    : "Bytes of the whole cache. A line bends where windows are full, and is level where only " +
      "states are kept.";
  const tokens = { log: 2, label: (value) => value >= 1024 ? `${numberText(value / 1024)} k`
    : numberText(value) };
  return { title, caption, svg: chart({ kind: "lines", title, caption, series, x: tokens,
    xTitle: "tokens of the context", y: { log: 2, label: bytesText },
    levels: room ? [{ y: room.bytes, name: room.name }] : [] }) };
}

export const costCharts = (figures) =>
  [cachesToScale(figures), bytesAgainstContext(figures)].filter(Boolean);
