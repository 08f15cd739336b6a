// The engine: one instance of the WebAssembly module, asked in JSON. It runs in a worker.

const kNotSupported = 52; // ENOSYS of WASI

export class WasmEngine {
  // Instance of a compiled module.
  constructor(module) {
    // The module's C library asks its host for files, output and an environment: there are none.
    const imports = {};
    for (const { module: space, name } of WebAssembly.Module.imports(module))
      (imports[space] ??= {})[name] = () => kNotSupported;
    imports.env ??= {};
    imports.env.headcount_stop = (place, bytes) => {
      throw new Error(this.text(place >>> 0, bytes));
    };
    this.exports = new WebAssembly.Instance(module, imports).exports;
    this.exports._initialize?.();
  }

  bytes(place, count) {
    return new Uint8Array(this.exports.memory.buffer, place, count);
  }
  text(place, count) {
    return new TextDecoder().decode(this.bytes(place, count));
  }

  // Copies bytes into the engine's memory; release the place afterwards.
  place(bytes) {
    const place = this.exports.headcount_allocate(bytes.length) >>> 0; // above 2 GiB it is signed
    this.bytes(place, bytes.length).set(bytes);
    return place;
  }

  // Reply to a request. `files`, [{name, bytes}], go with the request; files of the reply come as
  // copies. Throws Error where the engine stops; the instance must not be used after it.
  call(request, files) {
    const sent = files.map(({ name, bytes }) =>
      ({ name, pointer: this.place(bytes), bytes: bytes.length }));
    const json = new TextEncoder().encode(JSON.stringify(
      sent.length ? { ...request, files: sent } : request));
    const place = this.place(json);
    const answer = this.exports.headcount_call(place, json.length) >>> 0;
    const length = new DataView(this.exports.memory.buffer).getUint32(answer, true);
    const reply = JSON.parse(this.text(answer + 4, length));
    for (const { pointer } of [...sent, { pointer: place }])
      this.exports.headcount_release(pointer);
    return { reply, files: (reply.files ?? []).map(({ name, pointer, bytes }) =>
      ({ name, bytes: this.bytes(pointer, bytes).slice() })) };
  }
}
