// Runs the program for a browser under node: `const engine = load(path)`, then
// `engine.call({do: "plan", settings: {...}})`. Errors of the program are thrown.
import { readFileSync } from "node:fs";
import { WasmEngine } from "../../train/page/wasm_engine.js";

export function load(path) {
  const engine = new WasmEngine(new WebAssembly.Module(readFileSync(path)));
  const call = (request, given = []) => {
    const { reply, files } = engine.call(request, given);
    if (reply.error !== undefined) throw new Error(reply.error);
    return { ...reply, files };
  };
  return {
    call,
    error: (request) => engine.call(request, []).reply.error,
    /// Files of a checkpoint as {name, bytes: Uint8Array}.
    save: () => call({ do: "save" }).files,
    open: (files, data = "") => call({ do: "open", data }, files),
  };
}
