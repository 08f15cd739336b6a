// The page's side of an engine: a worker that answers requests one after another.

const contentOf = (id) => document.getElementById(id).textContent;
let workerAddress = null;
let module = null;

// A module whose one function multiplies and adds four floats with one rounding.
const kFused = new Uint8Array([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic number and version
  1, 8, 1, 0x60, 3, 0x7b, 0x7b, 0x7b, 1, 0x7b, // its type: three vectors to one
  3, 2, 1, 0,
  0x0a, 13, 1, 11, 0, 0x20, 0, 0x20, 1, 0x20, 2, 0xfd, 0x85, 2, 0x0b, // f32x4.relaxed_madd
]);

// Bytes that an element of the page has in base64.
export const bytesIn = (id) =>
  Uint8Array.from(atob(contentOf(id).trim()), (character) => character.charCodeAt(0));

// Compressed bytes of the faster module that this browser can run.
function moduleBytes() {
  module ??= bytesIn(WebAssembly.validate(kFused) ? "engine-fused" : "engine");
  return module.slice();
}

export class Engine {
  constructor() {
    workerAddress ??= URL.createObjectURL(
      new Blob([contentOf("worker")], { type: "text/javascript" }));
    this.worker = new Worker(workerAddress);
    this.waiting = []; // for replies, which come in the order of requests
    this.worker.onmessage = ({ data }) => this.settle(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.fail(event.message || "the engine's worker does not start");
    };
    const wasm = moduleBytes();
    this.worker.postMessage({ wasm }, [wasm.buffer]);
  }

  // Promise of the reply. `files`: [{name, bytes}]. The engine's errors reject it, with `diverged`
  // of a training whose loss became no number.
  call(request, files = []) {
    if (!this.worker) return Promise.reject(new Error("this engine has ended"));
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.worker.postMessage({ request, files });
    });
  }

  settle({ reply, files, error, diverged }) {
    const { resolve, reject } = this.waiting.shift();
    if (error === undefined) resolve({ ...reply, files });
    else reject(Object.assign(new Error(error), { diverged }));
  }

  fail(message) {
    for (const { reject } of this.waiting.splice(0)) reject(new Error(message));
  }

  end() {
    this.worker?.terminate();
    this.worker = null;
    this.fail("this engine has ended");
  }
}
