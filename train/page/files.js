// Saves trained models as an archive of checkpoints, which `headcount sample --from` opens after
// unpacking, and opens archives and checkpoints.
import { byId, h, say, setText, tell } from "./dom.js";
import { specOfPlan } from "./specs.js";
import { kMostCards, makeCard, setPhase, sharedSettings, state } from "./state.js";
import { commonSettings, pieceCharacter, texts } from "./texts.js";
import { endRuns, Run } from "./training.js";
import { unzipped, zipped } from "./zip.js";

const kSummary = "comparison.json"; // settings and results, for this page only
const kOfModel = new RegExp("(^|/)((config|tokenizer|tokenizer_config|trainer_state)\\.json|" +
  "SHA256SUMS|[\\w.-]+\\.safetensors)$");

// Name of a folder for an attention: "3xdelta_mqa".
const folderOf = (spec) => spec.replaceAll("*", "x").replaceAll("/", "_").replaceAll(":", "-");

const folderOfRecord = (run, record) => run.records.length > 1
  ? `${folderOf(run.spec)}/seed-${record.seed}` : folderOf(run.spec);

// The files of all trained runs, one folder each, and a summary.
function filesOfRuns() {
  const runs = state.runs.filter((run) => run.isTrained);
  const files = runs.flatMap((run) => run.records.flatMap((record) => record.files.map(
    ({ name, bytes }) => ({ name: `${folderOfRecord(run, record)}/${name}`, bytes }))));
  const summary = {
    settings: state.trained.settings,
    seeds: Math.max(...runs.map((run) => run.records.length)),
    runs: runs.map((run) => ({
      attention: run.spec,
      plan: run.plan,
      records: run.records.map((record) => ({ folder: folderOfRecord(run, record),
        seed: record.seed, losses: record.losses, checks: record.checks, step: record.step })),
    })),
  };
  const bytes = new TextEncoder().encode(JSON.stringify(summary, null, 1));
  return [{ name: kSummary, bytes }, ...files];
}

export function saveRuns() {
  const archive = new Blob(zipped(filesOfRuns()), { type: "application/zip" });
  const address = URL.createObjectURL(archive);
  const link = h("a", { href: address, download: `headcount-${state.trained.text}.zip` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser has read it by then
  say("Saved.");
}

// Folders of models among files: [{folder, files}], names without the folder. Of several
// checkpoints in one run's folder, the newest one.
function modelsIn(files) {
  const folders = new Map();
  for (const { name, bytes } of files) {
    if (!kOfModel.test(name)) continue;
    const cut = name.lastIndexOf("/"), folder = name.slice(0, Math.max(cut, 0));
    if (!folders.has(folder)) folders.set(folder, []);
    folders.get(folder).push({ name: name.slice(cut + 1), bytes });
  }
  const newest = new Map(); // by run
  for (const [folder, its] of folders) {
    if (!its.some(({ name }) => name.endsWith(".safetensors"))) continue;
    const [, run, step] =
      /^(.*?)\/?(?:checkpoints\/)?step-(\d+)$/.exec(folder) ?? [null, folder, 0];
    const known = newest.get(run);
    if (!known || Number(step) > known.step)
      newest.set(run, { step: Number(step), folder, files: its });
  }
  return [...newest.values()];
}

function summaryIn(files) {
  const file = files.find(({ name }) => name === kSummary);
  return file ? JSON.parse(new TextDecoder().decode(file.bytes)) : null;
}

// Run with a model that the engine has opened.
async function openedRun(model, style, all = []) {
  const { files } = model;
  const run = new Run({ spec: "", style, plan: { settings: {} } });
  try {
    const plan = await run.engine.call({ do: "open" }, files);
    plan.settings.data ??= dataOf(model, all);
    const steps = plan.step ?? plan.settings.steps ?? 0;
    Object.assign(run, { plan, spec: specOfPlan(plan), steps });
    const record = { seed: plan.settings.seed ?? 1, losses: [], checks: [], step: plan.step ?? 1,
      files };
    run.records.push(record);
    run.held = record;
    return run;
  } catch (error) {
    run.end();
    throw error;
  }
}

// The text that a model was trained on, as far as its files tell: lookups have pieces among their
// characters, and a run's folder has the settings of the run.
function dataOf(model, files) {
  const text = (bytes) => new TextDecoder().decode(bytes);
  const tokenizer = model.files.find(({ name }) => name === "tokenizer.json");
  if (tokenizer && text(tokenizer.bytes).includes(pieceCharacter(1, 0))) return "lookup";
  for (const { name, bytes } of files) {
    const folder = name.slice(0, Math.max(0, name.lastIndexOf("/")));
    if (!name.endsWith("config.json") || !model.folder.startsWith(folder)) continue;
    const { data } = JSON.parse(text(bytes));
    if (data in texts) return data;
  }
  return "own";
}

// What the page saved of a run, with the models of its seeds.
async function restoredRun(saved, models, style) {
  const filesOf = (folder) => {
    const model = models.find((each) => `/${each.folder}`.endsWith(`/${folder}`));
    if (!model) throw new Error(`the folder ${folder} is missing beside ${kSummary}`);
    return model.files;
  };
  const run = await openedRun({ folder: "", files: filesOf(saved.records.at(-1).folder) },
    style);
  run.records = saved.records.map((record) => ({ ...record, files: filesOf(record.folder) }));
  run.held = run.records.at(-1);
  Object.assign(run, { plan: saved.plan, spec: saved.attention, steps: saved.plan.settings.steps });
  return run;
}

// Sets cards and settings to those of opened models, so that they can be trained again.
function takeOver(runs, settings) {
  const data = settings.data;
  state.text = data in texts && data !== "own" ? data : "own";
  const shown = commonSettings.map(({ name }) => name);
  state.changed[state.text] = Object.fromEntries(
    Object.entries(settings).filter(([name]) => shown.includes(name)));
  state.cards = [];
  for (const run of runs) state.cards.push(makeCard(run.spec));
  if (runs.length === 1) state.cards.push(makeCard(runs[0].spec === "mqa" ? "mha" : "mqa"));
  state.runs = runs;
  state.trained = { text: state.text, settings: sharedSettings() };
}

// Opens the models among files [{name, bytes}].
async function openModels(files) {
  const summary = summaryIn(files), models = modelsIn(files);
  if (!models.length) {
    throw new Error("there is no model among these files: give a .zip file that this page saved, " +
      "or config.json, tokenizer.json and model.safetensors of a checkpoint");
  }
  const some = models.slice(0, kMostCards);
  const opened = summary
    ? await Promise.all(summary.runs.map((run, style) => restoredRun(run, models, style)))
    : await Promise.all(some.map((model, style) => openedRun(model, style, files)));
  endRuns();
  if (summary) state.seeds = summary.seeds;
  takeOver(opened, summary ? summary.settings : opened[0].plan.settings);
  setPhase("trained");
  tell("chosen");
  tell("progress");
  byId("ask").scrollIntoView();
  return `Opened ${opened.map((run) => run.spec).join(", ")}.` + (models.length > some.length
    ? ` ${models.length - some.length} more are not shown.` : "");
}

const bytesOfFile = async (file) => new Uint8Array(await file.arrayBuffer());

// Files of a dropped folder: [{name, file}], names with their folders. To a page from the disk,
// Chromium gives the files of a handle but not those of an entry; Firefox has entries only.
async function filesOfHandle(handle, path = "") {
  const name = path + handle.name;
  if (handle.kind === "file") return [{ name, file: await handle.getFile() }];
  const files = [];
  for await (const each of handle.values()) files.push(...await filesOfHandle(each, `${name}/`));
  return files;
}
async function filesOfEntry(entry, path = "") {
  const name = path + entry.name;
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ name, file }];
  }
  const reader = entry.createReader(), files = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return files;
    for (const each of some) files.push(...await filesOfEntry(each, `${name}/`));
  }
}

// All files of a drop. Items must be read before the event ends, their files later.
async function droppedFiles({ items }) {
  const dropped = [...items].filter((item) => item.kind === "file").map((item) => ({
    file: item.getAsFile(), entry: item.webkitGetAsEntry(),
    handle: item.getAsFileSystemHandle?.() }));
  const files = [];
  for (const { file, entry, handle } of dropped) {
    if (!entry?.isDirectory) files.push({ name: file.name, file });
    else if (handle) files.push(...await filesOfHandle(await handle));
    else files.push(...await filesOfEntry(entry));
  }
  return files;
}

// Opens files [{name, file}], or a promise of them: models, or one text, which
// `takeText(text, name)` gets.
async function openFiles(given, takeText) {
  const place = byId("opened");
  place.classList.remove("error");
  try {
    const list = await given;
    if (!list.length) return;
    const wanted = list.filter(({ name }) => kOfModel.test(name) || name.endsWith(".zip") ||
      name.endsWith(kSummary));
    if (!wanted.length && list.length === 1) {
      takeText(await list[0].file.text(), list[0].name);
      return;
    }
    const files = [];
    for (const { name, file } of wanted) {
      const bytes = await bytesOfFile(file);
      if (name.endsWith(".zip")) files.push(...unzipped(bytes));
      else files.push({ name, bytes });
    }
    const text = await openModels(files);
    setText(place, text);
    say(text);
  } catch (error) {
    place.classList.add("error");
    setText(place, `Not opened: ${error.message}`);
  }
}

// Takes files that are dropped anywhere on the page, and those of the button.
export function setUpFiles(takeText) {
  byId("open").addEventListener("click", () => byId("open-files").click());
  byId("open-files").addEventListener("change", ({ target }) => {
    openFiles([...target.files].map((file) => ({ name: file.name, file })), takeText);
    target.value = "";
  });
  const over = (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", event.type === "dragover");
  };
  addEventListener("dragover", over);
  addEventListener("dragleave", over);
  addEventListener("drop", (event) => {
    over(event);
    openFiles(droppedFiles(event.dataTransfer), takeText);
  });
  byId("save").addEventListener("click", saveRuns);
}
