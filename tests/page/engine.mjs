// Runs the program for a browser under node: `const engine = load(path)`, then
// `engine.call({do: "plan", settings: {...}})`. Errors of the program are thrown.
import { readFileSync } from "node:fs";

export function load(path) {
  const module = new WebAssembly.Module(readFileSync(path));
  let exports;
  const text = (pointer, bytes) =>
    new TextDecoder().decode(new Uint8Array(exports.memory.buffer, pointer, bytes).slice());
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    const kNotSupported = 52;
    (imports[from] ??= {})[name] = () => kNotSupported;
  }
  imports.env.headcount_stop = (pointer, bytes) => {
    throw new Error(text(pointer, bytes));
  };
  exports = new WebAssembly.Instance(module, imports).exports;
  exports._initialize();

  const put = (bytes) => {
    const pointer = exports.headcount_allocate(bytes.length);
    new Uint8Array(exports.memory.buffer, pointer, bytes.length).set(bytes);
    return pointer;
  };
  const reply = (request) => {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const pointer = put(bytes);
    const answer = exports.headcount_call(pointer, bytes.length);
    exports.headcount_release(pointer);
    const length = new DataView(exports.memory.buffer).getUint32(answer, true);
    return JSON.parse(text(answer + 4, length));
  };
  const call = (request) => {
    const result = reply(request);
    if (result.error !== undefined) throw new Error(result.error);
    return result;
  };
  return {
    call,
    error: (request) => reply(request).error,
    /// Files of a checkpoint as {name, bytes: Uint8Array}.
    save: () =>
      call({ do: "save" }).files.map(({ name, pointer, bytes }) => ({
        name,
        bytes: new Uint8Array(exports.memory.buffer, pointer, bytes).slice(),
      })),
    open: (files, data = "") => {
      const placed = files.map(({ name, bytes }) => ({
        name,
        pointer: put(bytes),
        bytes: bytes.length,
      }));
      try {
        return call({ do: "open", files: placed, data });
      } finally {
        for (const { pointer } of placed) exports.headcount_release(pointer);
      }
    },
  };
}
