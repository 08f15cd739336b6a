// What a report shows beside the verdict and the tables, which stand in the page as text: charts,
// passages as the attentions read them, settings, and how to repeat it. Made from the JSON inside
// the page.
import { bitsCharts } from "./bits.js";
import { answersAxis, chartsOf, firstDrawn, leftOut, lossAxis } from "./charts.js";
import { costCharts } from "./cost.js";
import { durationText, listText, mean, numberText, percentText, plural, shownCharacter, signedText,
  visible } from "./format.js";
import { chart, escaped } from "./plot.js";
import { lookupPicture } from "./lookup_picture.js";
import { kSide, lookingText, lookupAnswer, pieceText, piecesIn, smallBoard } from "./lookups.js";
import { kLossShades, kWeightShades, shadedText, shadeOf } from "./passage.js";

const kOpenHeads = 48; // most heads that are not folded up
const kMostHeads = 360; // of all attentions: the page stays small
const kCurvePoints = 200; // of a run's training curve: means over equal stretches

const element = (tag, content) => `<${tag}>${escaped(content)}</${tag}>\n`;
const figure = ({ svg, caption }) => `<figure>\n${svg}${element("figcaption", caption)}</figure>\n`;
const section = (heading, content) => content && `<h2>${escaped(heading)}</h2>\n${content}`;
const folded = (summary, content, open = "") =>
  `<details${open}>\n${element("summary", summary)}${content}</details>\n`;
const settingsOf = (runs, content) => folded(`Settings that all ${runs} share`, content);

const entriesOf = (entries) => entries.filter(([, value]) => value)
  .map(([name, value]) => element("dt", name) + element("dd", value)).join("");

const key = (shades, unit, decimals, name = "") => `<p class="key${name}">${shades.map((least, i) =>
  `<i class="l${i + 1}">${numberText(least, decimals)}</i> `).join("")}${unit} or more</p>\n`;

const passageFigure = (caption, name, text, board = "") => `<figure><figcaption>${caption
}</figcaption><div class="seen">${board}<pre class="text${name}">${text}</pre></div></figure>\n`;

// Passage of the validation part as each attention reads it.
function lossSection({ passage }, readers, r) {
  const { characters, question } = passage, answers = passage.answers ?? [];
  const asked = answers.includes(question), only = r.only_answers;
  const figures = readers.map(({ spec, reading: { losses } }) => {
    const values = losses.map((loss) => loss ?? NaN);
    const meanText = (some) => numberText(mean(some.filter(Number.isFinite)), 3);
    const text = `${meanText(values)} nats ${only ? "an answer" : "a character"}` +
      (asked && !only ? `, ${meanText(answers.map((at) => values[at]))} an answer` : "");
    const hovers = losses.map((loss) => loss === null ? "" : `${numberText(loss, 3)} nats`);
    return passageFigure(`<strong>${escaped(spec)}</strong> ${text}`, "",
      shadedText(characters, values, kLossShades, { hovers, answers }));
  });
  const chosen = passage.shown_for ? `, chosen because ${passage.shown_for} loses more on its ` +
    "last answer than those that may be enough" : "";
  return section("Where the loss arises", element("p", `Passage ${passage.number} of the ` +
    `validation part, as the first seed of each attention reads it${chosen}. The darker a ` +
    "character, the more nats the model loses on it." +
    (!asked ? "" : placeOfValue(r) < 0
      ? " Underlined characters are answers: only earlier text determines them."
      : " Underlined characters stand where an answer is asked for; the text has random ones " +
        "there, the last of which is shown as ?.") +
    (only ? " The loss counts answers only." : "")) +
    `${key(kLossShades, "nats", 1)}<div class="readings">\n${figures.join("")}</div>\n`);
}

const nameOfHead = (layer, head) => `layer ${layer + 1}, head ${head + 1}`;

// Pieces of a passage of lookups on a board as lookups.js knows it, and the letter that asks; null
// in other texts.
function boardOf({ data, config, passage: { characters, question } }) {
  if (data !== "lookup" || Number(config.side ?? kSide) !== kSide || config.directions === 0)
    return null;
  const pieces = piecesIn(characters.join("")), letter = characters[question - 1];
  return lookupAnswer(pieces, letter) === null ? null : { pieces, letter };
}

function headFigure(r, { weights }, layer, head) {
  const { passage: { characters, question } } = r, board = boardOf(r);
  const hovers = weights.map((weight) => weight >= 0.01 ? `${numberText(100 * weight, 1)} %` : "");
  const most = Math.max(...weights), at = weights.indexOf(most), seen = characters[at];
  const piece = board && pieceText(board.pieces, board.letter, at);
  const caption = `${nameOfHead(layer, head)}: ${percentText(most, 0)} on ${piece ??
    `${escaped(shownCharacter(seen))}, ${plural(question - at, "character")} back`}`;
  return passageFigure(caption, " w",
    shadedText(characters.slice(0, weights.length), weights, kWeightShades, { hovers }) +
    `<i class="d q" title="asked for">${escaped(visible(characters[question]))}</i>`,
    board ? smallBoard(board.pieces, board.letter, (i) => shadeOf(weights[i], kWeightShades)) : "");
}

// Position of the value that the question of a passage asks for, in texts of pairs; the text goes on
// with a random character where it is asked for. -1 in other texts.
function placeOfValue({ data, config, passage: { characters, question } }) {
  const length = config["line-length"] ?? characters.length, begin = question - question % length;
  if (!["recall", "mqar"].includes(data)) return -1;
  const key = characters.indexOf(characters[question - 1], begin);
  return key < question - 1 ? key + 1 : -1;
}

// Sentences on the answer of an attention, and on which head looks most at where the right one
// stands.
function pointingText(r, { spec, reading }) {
  const { characters } = r.passage, board = boardOf(r), at = placeOfValue(r);
  const heads = reading.heads.flatMap((layer, i) => layer.map(({ weights }, k) =>
    ({ name: nameOfHead(i, k), weights })));
  if (!heads.length || !board && at < 0) return "";
  const right = board ? lookupAnswer(board.pieces, board.letter) : characters[at];
  const { said = right } = reading;
  const judged = `The right answer is ${right}${said === right ? "" : `, and ${spec} gives ${
    shownCharacter(said)}`}. `;
  if (board) return judged + lookingText(characters.slice(0, r.passage.question), heads, said);
  const [best] = heads.sort((a, b) => b.weights[at] - a.weights[at]);
  return `${judged}Of ${spec}, ${best.name} looks most at it, with ${
    percentText(best.weights[at], 0)} of its weight.`;
}

function headsSection(r, readers) {
  const { passage } = r;
  const heads = readers.flatMap(({ reading }) => reading.heads.flat()).length;
  const most = Math.max(1, Math.floor(kMostHeads / readers.length));
  const details = readers.map(({ spec, reading }) => {
    const figures = reading.heads.flatMap((layer, i) => layer.length
      ? layer.map((head, k) => headFigure(r, head, i, k))
      : [`<p>layer ${i + 1} has no scores: it keeps a state</p>\n`]);
    const left = figures.length - most;
    const more = left > 0 ? `<p>${plural(left, "more head")} not shown</p>\n` : "";
    return folded(spec, element("p", pointingText(r, { spec, reading })) +
      `<div class="looks">\n${figures.slice(0, most).join("")}${more}</div>`,
      heads <= kOpenHeads ? " open" : "");
  });
  return section("What each head looks at", element("p", "Attention of each head when the model " +
    "predicts what stands in the box of the same passage, the last " +
    `${passage.answers?.includes(passage.question) ? "answer" : "character"}. Shades are the ` +
    "shares of one head's attention weights, and its caption names the character with the most of " +
    "them" +
    (boardOf(r) ? ", a piece by its value. On the board, the line that is asked for is dotted."
      : ".")) +
    key(kWeightShades, "of the weight", 2, " w") + details.join(""));
}

// Sentence on what was run.
function scopeText(r) {
  const runs = r.variants.flatMap((v) => v.runs).length, alone = r.seeds.length === 1;
  const failures = r.variants.flatMap((v) => v.failures).length;
  return `${plural(r.variants.length, "attention")} on ${r.data}, ` +
    `${alone ? "one seed" : `up to ${r.seeds.length} seeds each`}: ` +
    `${plural(runs, "run")} finished${failures ? `, ${numberText(failures)} failed; see below`
      : ""}.` + (alone ? " With one seed there are no intervals: nothing here tells which " +
      "differences another seed would show too." : "");
}

const tableNote = (r) => r.verdict.metric === "steps" ? "" :
  `Loss in nats per ${r.only_answers ? "answer" : "character"} over ` +
  `${r.evaluated_characters ? "the beginning of" : "the whole of"} the validation split. +- is ` +
  "the half width of a 95\u00a0% interval over seeds: of twenty such intervals, about nineteen " +
  "contain the true mean. Differences are between runs of the same seed. Intervals are not " +
  "corrected for several comparisons: of twenty attentions that are equal, about one interval " +
  "excludes zero by chance.";

// Link to the page that trains in a browser, in the same folder; "" if it cannot repeat the
// comparison.
function tryLink(r) {
  if (r.variants.some((v) => v.adjusted)) return "";
  const asked = { settings: r.config, attentions: r.variants.map((v) => v.spec) };
  return `<p><a href="headcount.html#settings=${encodeURIComponent(JSON.stringify(asked))}">Try ` +
    "it</a>: train these attentions in a browser, and ask them.</p>\n";
}

// A passage of the text as a model reads it, up to its question, and the answer.
function exampleOf(r) {
  if (!r.passage?.answers) return "";
  const { answers, characters, question } = r.passage, at = placeOfValue(r);
  const shown = (some) => escaped(some.map(visible).join(""));
  if (!answers.includes(question)) // a story without a question
    return `<pre class="example">${shown([...characters].slice(0, 200))}</pre>\n` +
      element("p", "An example of the text, which asks nothing here.");
  const begin = at < 0 ? characters.lastIndexOf("\n", question - 1) + 1
    : question - question % (r.config["line-length"] ?? characters.length);
  const line = characters.slice(Math.max(begin, question - 200), question);
  const answer = characters[at < 0 ? question : at];
  const board = boardOf(r);
  return `<div class="seen">${board ? smallBoard(board.pieces, board.letter, () => "") : ""
  }<pre class="example">${shown(line)}<b>${shown([characters[question]])}</b></pre></div>\n` +
    element("p", board ? `An example: the five pieces as a board and as text; ${board.letter} asks ` +
      "for the piece on the dotted line, and the underlined digit, its value, is the right answer."
      : at < 0 ? "An example: the underlined character is the right answer."
      : `An example: ${shown([characters[question - 1]])} stands again, and its value, ${
        shown([answer])}, is the right answer at the question mark.`);
}

// Words of the tables, beside those of attentions and verdicts.
const kWords = (r) => [
  [`KV B/token at ${r.context}`, "bytes of KV cache in float32, over all layers, of a text of " +
    `${numberText(r.context)} tokens, divided by its tokens`],
  ["seed", "number from which weights and batches of a run are drawn: runs with the same seed " +
    "read the same text in the same order"],
  ["canonA", r.variants.some((v) => v.cache?.flat().some(({ name }) => name === "canonA")) &&
    "last inputs of a short convolution before attention, which a cache keeps, too; their bytes " +
    "do not grow with the text"],
  ["H, G, d", `query heads, ${r.config.heads} unless a word says otherwise; KV heads; and the ` +
    "numbers of a head"],
  ["nats", "unit of the loss: 0 is certainty, a guess among n characters has ln n"],
];
// Results whose passage has ? for the random character where the last answer is asked for, which
// might pass for one.
function withoutLastRandom(r) {
  if (!r.passage || placeOfValue(r) < 0) return r;
  const characters = [...r.passage.characters];
  characters[r.passage.question] = "?";
  return { ...r, passage: { ...r.passage, characters } };
}

// Parts of a comparison's section: beside its verdict, and below its table.
export function comparisonParts(results, canTry = false) {
  const r = withoutLastRandom(results);
  const charts = [...chartsOf(r), ...bitsCharts(r)];
  const readers = r.passage ? r.variants.filter((v) => v.reading) : [];
  const hours = r.machine_hours;
  return {
    asked: (r.data === "lookup" ? `<figure>${lookupPicture()}</figure>\n` : "") + exampleOf(r), words: entriesOf(kWords(r)),
    beside: charts.slice(0, 2).map(figure).join("") + element("p", scopeText(r)) +
      (canTry ? tryLink(r) : ""),
    below: (tableNote(r) && `<p class="note">${escaped(tableNote(r))}</p>\n`) +
      section("Charts", charts.length > 2
        ? `<div class="columns">\n${charts.slice(2).map(figure).join("")}</div>\n` : "") +
      (readers.length ? lossSection(r, readers, r) + headsSection(r, readers) : "") +
      section("How to repeat it", element("pre", r.command) +
        `<dl class="columns">${entriesOf([
        ["Text", r.data], ["SHA-256 of the text", r.data_sha256],
        ["Sizes matched", r.match === "none" ? "no" : r.match], ["Swept", r.sweep],
        ["Version", r.version], ["Machine", r.machine],
        ["Machine time", Number.isFinite(hours) ? durationText(3600 * hours) : ""]])}</dl>\n` +
        settingsOf("attentions", element("pre", JSON.stringify(r.config, null, 2)))),
  };
}

// Points of one value of a run against the step, each the mean over `stretch` rows.
function curveOf({ run, curve }, key, what, decimals, { stretch = 1, unit = 1 } = {}) {
  const rows = curve.filter((row) => Number.isFinite(row[key])), points = [];
  for (let i = 0; i < rows.length; i += stretch) {
    const part = rows.slice(i, i + stretch), x = part.at(-1).step;
    const y = unit * mean(part.map((row) => row[key]));
    points.push({ x, y,
      hover: `${run}, step ${numberText(x)}: ${what} ${numberText(y, decimals)}` });
  }
  return points;
}

// Charts of training runs: losses, and right answers where the text marks answers.
export function runCharts(runs) {
  const stretch = Math.ceil(Math.max(...runs.map(({ curve }) => curve.length)) / kCurvePoints);
  const losses = runs.map((run) => ({ name: run.run,
    training: curveOf(run, "loss", "training loss", 4, { stretch }),
    validation: curveOf(run, "val_loss", "validation loss", 4) }));
  const first = Math.min(...losses.map(({ training }) => firstDrawn(training.map(({ x }) => x))));
  const series = losses.flatMap(({ name, training, validation }, style) => [
    { name, style, points: training, faint: validation.length > 0 },
    { name, style, points: validation }]);
  for (const each of series) each.points = each.points.filter((p) => p.x >= first);
  const bare = losses.filter(({ validation }) => !validation.length).map(({ name }) => name);
  const caption = "Thick lines with marks are losses over the validation text, thin ones of the " +
    `batches of training${stretch > 1 ? ", means over stretches of steps" : ""}.` +
    (bare.length ? ` Without an evaluation, the training loss is the thick line: ${listText(bare)}.`
      : "") + leftOut(first);
  const drawn = (about) => ({ caption: about.caption,
    svg: chart({ kind: "lines", xTitle: "step", ...about }) });
  const charts = [drawn({ caption, title: runs.length > 1 ? "Losses" : `Losses of ${runs[0].run}`,
    yTitle: "loss, nats", series, y: lossAxis(series) })];
  const answers = runs.map((run, style) => ({ name: run.run, style,
    points: curveOf(run, "val_answer_accuracy", "right answers, %", 1, { unit: 100 }) }));
  if (answers.some(({ points }) => points.length > 1))
    charts.push(drawn({ title: "Right answers", ...answersAxis, series: answers,
      caption: "Share of the answers of the validation text that the model predicts right." }));
  return charts;
}

const isSame = (runs, value) => runs.every((run) => value(run) === value(runs[0]));

// What to know before two losses are compared.
export function runsText(runs) {
  const unfinished = runs.filter(({ steps_done: done, settings, curve }) =>
    done < settings.steps && !("stopped" in curve.at(-1))).map(({ run, steps_done: done,
    settings }) => `${run} (${numberText(done)} of ${numberText(settings.steps)})`);
  const [best] = runs.filter((run) => Number.isFinite(run.val_loss))
    .sort((a, b) => a.val_loss - b.val_loss);
  const part = ({ settings }) => `${settings["eval-characters"]} ${settings["validation-part"]}`;
  const [differ] = [["are on different texts", (run) => run.data_sha256],
    ["have different contexts", (run) => run.context],
    ["were evaluated on different parts of their text", part]]
    .find(([, value]) => !isSame(runs, value)) ?? [];
  const text = differ ? `The runs ${differ}, whose losses do not compare.`
    : !best ? "No validation loss was measured yet."
      : (runs.length > 1 ? `${best.run} has the least validation loss, `
        : "The validation loss is ") + `${numberText(best.val_loss, 4)}.`;
  return text + (unfinished.length ? ` Not all steps are done of ${listText(unfinished)}.` : "") +
    (isSame(runs, ({ settings }) => settings.precision) ? ""
      : " The runs differ in precision, and their losses by its rounding.");
}

const settingText = (value) => value === undefined ? "–"
  : typeof value === "string" ? value : Number.isFinite(value) && !Number.isInteger(value)
    ? String(Number(value.toPrecision(7))) : JSON.stringify(value);

// Settings of all runs: those that differ side by side, the others folded up.
function settingsSection(runs) {
  const names = [...new Set(runs.flatMap(({ settings }) => Object.keys(settings)))];
  const isAlike = (name) => isSame(runs, ({ settings }) => settingText(settings[name]));
  const table = (head, wanted, of) => '<div class="scroll" tabindex="0" role="region" ' +
    `aria-label="Settings"><table>\n<thead><tr>${
      head.map((name) => `<th scope="col">${escaped(name)}</th>`).join("")}</tr></thead>\n<tbody>${
      wanted.map((name) => `<tr><th scope="row">${escaped(name)}</th>${of.map(({ settings }) =>
        `<td>${escaped(settingText(settings[name]))}</td>`).join("")}</tr>\n`).join("")
    }</tbody></table></div>\n`;
  const differing = names.filter((name) => !isAlike(name));
  return (runs.length < 2 ? "" : section("Settings that differ", differing.length
    ? table(["setting", ...runs.map(({ run }) => run)], differing, runs)
    : element("p", "All runs have the same settings."))) +
    settingsOf("runs", table(["setting", "value"], names.filter(isAlike), [runs[0]]));
}

export function runsParts(runs) {
  const starts = runs.map(({ run, starts: all }) => element("dt", run) + all.map(({ command,
    version, machine, from_step: from }) => `<dd>${element("pre", command)}${escaped(version)}${
    machine ? `, on ${escaped(machine)}` : ""}${
    from > 0 ? ` from step ${numberText(from)}` : ""}</dd>\n`).join(""));
  return {
    beside: runCharts(runs).map(figure).join("") + element("p", runsText(runs)),
    below: '<p class="note">Losses in nats: of the last batch of training, and of the newest ' +
      "evaluation over the validation text. The cache is that of float32 at the context.</p>\n" +
      settingsSection(runs) + section("How to repeat it", `<dl>\n${starts.join("")}</dl>\n`),
  };
}

const costParts = (cost) => ({ beside: costCharts(cost).map(figure).join(""), below: "" });

// Fills the sections of the page from its JSON: [{results, can_try}, {runs} or {cost}], one for
// each section.
export function fillReport(page) {
  const data = JSON.parse(page.getElementById("data").textContent);
  for (const [i, part] of page.querySelectorAll(".part").entries()) {
    const { asked = "", words = "", beside, below } = data[i].cost ? costParts(data[i].cost)
      : data[i].runs ? runsParts(data[i].runs)
      : comparisonParts(data[i].results, data[i].can_try);
    part.querySelector(".asked")?.insertAdjacentHTML("beforeend", asked);
    part.querySelector(".words")?.insertAdjacentHTML("beforeend", words);
    part.querySelector(".beside").insertAdjacentHTML("beforeend", beside);
    part.insertAdjacentHTML("beforeend", below);
  }
}
if (typeof document !== "undefined" && document.getElementById("data")) fillReport(document);
