// The engine: one instance of the WebAssembly module, asked in JSON. It runs in a worker.

// Text of an error that stopped the engine; the instance is of no use after it.
export class EngineStopped extends Error {}

const kNotSupported = 52; // ENOSYS of WASI
const kSuccess = 0;

// What the module's C library asks of its host: clocks, random bytes, output that goes nowhere, no
// arguments, no environment, no files.
function hostCalls(memory) {
  const view = () => new DataView(memory().buffer);
  const none = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return kSuccess;
  };
  return {
    args_get: () => kSuccess,
    args_sizes_get: none,
    environ_get: () => kSuccess,
    environ_sizes_get: none,
    clock_time_get(clock, precision, place) {
      const now = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(place, BigInt(Math.round(now * 1e6)), true);
      return kSuccess;
    },
    random_get(place, bytes) {
      const kMost = 65536; // of one call of getRandomValues
      for (let at = 0; at < bytes; at += kMost) {
        const part = new Uint8Array(memory().buffer, place + at, Math.min(kMost, bytes - at));
        crypto.getRandomValues(part);
      }
      return kSuccess;
    },
    fd_write(file, list, count, place) {
      let written = 0;
      for (let i = 0; i < count; ++i) written += view().getUint32(list + 8 * i + 4, true);
      view().setUint32(place, written, true);
      return kSuccess;
    },
    proc_exit(code) {
      throw new EngineStopped(`the engine ended with code ${code}`);
    },
  };
}

export class WasmEngine {
  // Instance of a compiled module.
  constructor(module) {
    const memory = () => this.exports.memory;
    const known = hostCalls(memory);
    const imports = {};
    for (const { module: space, name, kind } of WebAssembly.Module.imports(module)) {
      if (kind !== "function") continue;
      imports[space] ??= {};
      imports[space][name] = known[name] ?? (() => kNotSupported);
    }
    imports.env ??= {};
    imports.env.headcount_stop = (place, bytes) => {
      throw new EngineStopped(this.text(place, bytes));
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
    const place = this.exports.headcount_allocate(bytes.length);
    this.bytes(place, bytes.length).set(bytes);
    return place;
  }

  // Reply to a request. `files`, [{name, bytes}], go with the request; files of the reply come as
  // copies. Throws EngineStopped and RuntimeError, after which the instance must not be used.
  call(request, files) {
    const places = [];
    if (files.length) {
      request = { ...request, files: [] };
      for (const { name, bytes } of files) {
        const pointer = this.place(bytes);
        places.push(pointer);
        request.files.push({ name, pointer, bytes: bytes.length });
      }
    }
    const json = new TextEncoder().encode(JSON.stringify(request));
    const place = this.place(json);
    const answer = this.exports.headcount_call(place, json.length);
    const length = new DataView(this.exports.memory.buffer).getUint32(answer, true);
    const reply = JSON.parse(this.text(answer + 4, length));
    for (const pointer of [place, ...places]) this.exports.headcount_release(pointer);
    const out = (reply.files ?? []).map(({ name, pointer, bytes }) => ({
      name,
      bytes: this.bytes(pointer, bytes).slice(),
    }));
    return { reply, files: out };
  }
}
