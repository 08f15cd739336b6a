// Saves trained models as an archive of checkpoints, which `headcount sample --from` opens after
// unpacking, and opens archives and checkpoints.
import { checkSums } from "./checksums.js";
import { byId, h, noteFiles, on, onFiles, say, tell } from "./dom.js";
import { bytesIn } from "./engine.js";
import { kNotTaken, takeAsked } from "./link.js";
import { showModel } from "./model_cost.js";
import { isBusy, kMostCards, noteTrained, setPhase, state } from "./state.js";
import { commonSettings, texts, writtenWith } from "./texts.js";
import { endRuns, Run } from "./training.js";
import { unzipped, zipped } from "./zip.js";

const kSummary = "comparison.json"; // settings and results, for this page only
const kOfModel = new RegExp("(^|/)((config|run|tokenizer|tokenizer_config|trainer_state)\\.json|" +
  "SHA256SUMS|[\\w.-]+\\.safetensors)$");

// Name of a folder for an attention: "3xdelta_mqa".
const folderOf = (spec) => spec.replaceAll("*", "x").replaceAll("/", "_").replaceAll(":", "-");

// Folders of runs, all different, and of their records.
function foldersOf(runs) {
  const names = [];
  for (const name of runs.map(({ spec }) => folderOf(spec))) {
    let free = name;
    for (let i = 2; names.includes(free); ++i) free = `${name}-${i}`;
    names.push(free);
  }
  return (run, record) => names[runs.indexOf(run)] +
    (run.records.length > 1 ? `/seed-${record.seed}` : "");
}

// The files of all trained runs, one folder each, and a summary.
function filesOfRuns() {
  const runs = state.runs.filter((run) => run.isTrained && run.finished.length);
  const folderOfRecord = foldersOf(runs);
  const files = runs.flatMap((run) => run.finished.flatMap((record) => record.files.map(
    ({ name, bytes }) => ({ name: `${folderOfRecord(run, record)}/${name}`, bytes }))));
  const summary = {
    settings: state.trained.settings,
    seeds: Math.max(...runs.map((run) => run.records.length)),
    runs: runs.map((run) => ({
      attention: run.spec,
      plan: run.plan,
      records: run.records.map((record) =>
        ({ ...record, files: undefined, folder: folderOfRecord(run, record) })),
    })),
  };
  const bytes = new TextEncoder().encode(JSON.stringify(summary, null, 1));
  return [{ name: kSummary, bytes }, ...files];
}

async function saveRuns() {
  const archive = new Blob(await zipped(filesOfRuns()), { type: "application/zip" });
  const address = URL.createObjectURL(archive);
  const link = h("a", { href: address, download: `headcount-${state.trained.text}.zip` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser has read it by then
  say("Saved.");
}

// Folders of models among files: [{folder, files}], names without the folder. Of several
// checkpoints in one run's folder, the newest one.
export function modelsIn(files) {
  const parts = files.filter(({ name }) => kOfModel.test(name)).map(({ name, bytes }) => {
    const cut = name.lastIndexOf("/");
    return { folder: name.slice(0, Math.max(cut, 0)), name: name.slice(cut + 1), bytes };
  });
  const newest = new Map(); // by run
  for (const { folder, name } of parts) {
    if (!name.endsWith(".safetensors")) continue;
    const [, run, step] =
      /^(.*?)\/?(?:checkpoints\/)?step-(\d+)$/.exec(folder) ?? [null, folder, 0];
    if (!(newest.get(run)?.step >= Number(step))) newest.set(run, { step: Number(step), folder,
      files: parts.filter((each) => each.folder === folder) });
  }
  return [...newest.values()];
}

const textOf = (bytes) => new TextDecoder().decode(bytes);

function summaryIn(files) {
  const file = files.find(({ name }) => `/${name}`.endsWith(`/${kSummary}`));
  return file ? JSON.parse(textOf(file.bytes)) : null;
}

// Run with a model that the engine has opened. `all` are the files among which it was found.
async function openedRun(model, style, all = []) {
  const { files } = model;
  const run = new Run({ spec: "", style, plan: { settings: {} } });
  try {
    await checkSums(files);
    const settings = settingsOfTraining(model, all);
    const plan = await run.engine.call({ do: "open", data: settings.data }, files);
    plan.training = Object.fromEntries(Object.entries(settings)
      .filter(([name]) => !Object.hasOwn(plan.settings, name)));
    plan.settings = { ...settings, ...plan.settings };
    const held = { seed: plan.settings.seed ?? 1, losses: [], checks: [], step: plan.step ?? 1,
      files };
    return Object.assign(run,
      { plan, spec: plan.spec, steps: plan.step ?? 0, records: [held], held });
  } catch (error) {
    run.end();
    throw error;
  }
}

// The object in a file of a checkpoint; an empty one where the engine will say what is wrong.
function jsonIn(files, wanted) {
  try {
    return JSON.parse(textOf(files.find(({ name }) => name === wanted).bytes)) ?? {};
  } catch {
    return {};
  }
}

// Settings with which a model was trained, `data` among them, as far as its files tell: a run's
// folder has the settings of the run, a checkpoint alone has the characters of its text.
function settingsOfTraining(model, files) {
  for (const { name, bytes } of files) {
    if (name !== "run.json" && !name.endsWith("/run.json")) continue;
    const folder = name.slice(0, -"run.json".length); // with a slash, if there is one
    if (!`${model.folder}/`.startsWith(folder)) continue;
    const { settings } = JSON.parse(textOf(bytes));
    if (!settings?.data) continue;
    const taken = Object.entries(settings).filter(([setting]) => !kNotTaken.includes(setting));
    return { ...Object.fromEntries(taken),
      data: Object.hasOwn(texts, settings.data) ? settings.data : "own" };
  }
  const { model: tokenizer } = jsonIn(model.files, "tokenizer.json");
  const { headcount: sizes } = jsonIn(model.files, "config.json");
  return writtenWith(Object.keys(tokenizer?.vocab ?? {}), sizes?.context);
}

// What the page saved of a run, with the models of its seeds.
async function restoredRun(saved, models, style) {
  const filesOf = (folder) => {
    const model = models.find((each) => `/${each.folder}`.endsWith(`/${folder}`));
    if (!model) throw new Error(`the folder ${folder} is missing beside ${kSummary}`);
    return model.files;
  };
  const records = saved.records.map((record) =>
    ({ ...record, files: record.diverged ? null : filesOf(record.folder) }));
  const held = records.findLast((record) => record.files);
  const run = await openedRun({ folder: "", files: held.files }, style);
  const { cache, vocabulary } = run.plan; // earlier pages described it otherwise
  const plan = { ...saved.plan, cache, vocabulary };
  return Object.assign(run,
    { records, held, plan, spec: saved.attention, steps: plan.settings.steps });
}

// Shared settings with which an opened model can be trained again: those that sliders show, the
// others of its training, and those in which it differs from a model of the page.
function settingsAgain({ settings, training, changed }) {
  const shown = commonSettings.filter(({ name }) => Object.hasOwn(settings, name));
  return { ...training, ...changed,
    ...Object.fromEntries(shown.map(({ name }) => [name, settings[name]])) };
}

// The runs of promises; if one is refused, the others end.
async function allOf(promises) {
  const settled = await Promise.allSettled(promises);
  const refused = settled.find(({ status }) => status === "rejected");
  if (!refused) return settled.map(({ value }) => value);
  for (const { value } of settled) value?.end();
  throw refused.reason;
}

// Opens the models among files [{name, bytes}], or those of the page.
async function openModels(files, areBuiltIn = false) {
  const summary = summaryIn(files), models = modelsIn(files);
  if (!models.length) {
    throw new Error("there is no model among these files: give a .zip file that this page saved, " +
      "or config.json, tokenizer.json and model.safetensors of a checkpoint");
  }
  const some = models.slice(0, kMostCards);
  const opened = await allOf(summary
    ? summary.runs.map((run, style) => restoredRun(run, models, style))
    : some.map((model, style) => openedRun(model, style, files)));
  endRuns();
  const settings = summary ? summary.settings : settingsAgain(opened[0].plan);
  // Cards and settings become those of the models, so that they can be trained again.
  takeAsked({ settings, attentions: opened.map(({ spec }) => spec), seeds: summary?.seeds });
  state.runs = opened;
  if (areBuiltIn) state.builtIn = opened;
  noteTrained();
  setPhase("trained");
  tell("chosen");
  tell("progress");
  if (!areBuiltIn) byId("ask").scrollIntoView();
  const unseen = summary ? [] : Object.entries(opened[0].plan.changed);
  const differ = !summary && opened.some(
    ({ plan }) => JSON.stringify(settingsAgain(plan)) !== JSON.stringify(settings));
  return `Opened ${opened.map((run) => run.spec).join(", ")}.` +
    (models.length > some.length ? ` ${models.length - some.length} more are not shown.` : "") +
    (differ ? ` Training again gives all of them the settings of ${opened[0].spec}.` : "") +
    (unseen.length ? ` Training again keeps ${
      unseen.map((setting) => setting.join(" ")).join(", ")}.` : "");
}

export const openBuiltIn = async () => openModels(await unzipped(bytesIn("models")), true);

// Files below a dropped file or folder: [{name, file}], names with their folders. To a page from
// the disk, Chromium gives the files of a handle but not those of an entry; Firefox has entries
// only, whose functions call back.
const called = (node, method) => new Promise((resolve, reject) => node[method](resolve, reject));
async function* inside(entry) {
  const reader = entry.createReader();
  for (let some; (some = await called(reader, "readEntries")).length;) yield* some;
}
async function filesBelow(node, path = "") {
  const name = path + node.name, files = [];
  if (node.getFile) return [{ name, file: await node.getFile() }];
  if (node.isFile) return [{ name, file: await called(node, "file") }];
  for await (const each of node.values?.() ?? inside(node))
    files.push(...await filesBelow(each, `${name}/`));
  return files;
}

// All files of a drop. Items must be read before the event ends, their files later.
async function droppedFiles({ items }) {
  const dropped = [...items].filter((item) => item.kind === "file").map((item) => {
    const file = item.getAsFile(), entry = item.webkitGetAsEntry();
    return entry?.isDirectory ? item.getAsFileSystemHandle?.() ?? entry
      : { name: file.name, getFile: () => file };
  });
  return (await Promise.all(dropped.map(async (node) => filesBelow(await node)))).flat();
}

// Opens files [{name, file}], or a promise of them: models, a config.json alone, or one text, which
// `takeText(text, name)` gets. They came from a block of the page.
async function openFiles(given, takeText, block) {
  try {
    const list = await given;
    if (!list.length) return;
    const wanted = list.filter(({ name }) => kOfModel.test(name) || name.endsWith(".zip") ||
      name.endsWith(kSummary)), [{ name: first, file: only }] = list;
    if (list.length === 1 && first.endsWith(".json") && !first.endsWith(kSummary)) {
      await showModel(await only.text(), first);
      noteFiles("");
      return;
    }
    if (list.length === 1 && !wanted.length) {
      takeText(await only.text(), first);
      noteFiles("");
      byId("own-text").scrollIntoView({ block: "nearest" });
      return;
    }
    const files = [];
    for (const { name, file } of wanted) {
      const bytes = new Uint8Array(await file.arrayBuffer());
      if (name.endsWith(".zip")) files.push(...await unzipped(bytes));
      else files.push({ name, bytes });
    }
    const text = await openModels(files);
    noteFiles(text, { block });
    say(text);
  } catch (error) {
    noteFiles(`Not opened: ${error.message}`, { isError: true, block });
  }
}

// A block of a section, or the beginning of the page, that has an element.
const blockOf = (element) => element.closest("#choices > *, main > section > *, main > header");

// Takes files that are dropped anywhere on the page, and those of the buttons.
export function setUpFiles(takeText) {
  const take = (files, block) =>
    openFiles(files.map((file) => ({ name: file.name, file })), takeText, block);
  byId("open").addEventListener("click", () => byId("open-files").click());
  onFiles("open-files", (files) => take(files, byId("open-block")));
  onFiles("model-file", (files) => take(files, byId("model-block")));
  on("phase", () => { if (isBusy()) noteFiles(""); }); // of models that are no longer shown
  const over = (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", event.type === "dragover");
  };
  addEventListener("dragover", over);
  addEventListener("dragleave", over);
  addEventListener("drop", (event) => {
    over(event);
    openFiles(droppedFiles(event.dataTransfer), takeText, blockOf(event.target));
  });
  byId("save").addEventListener("click", saveRuns);
}
