// The page's side of an engine: a worker that answers requests one after another.

// An error that the engine reports. `stopped`: its model is lost.
export class EngineError extends Error {
  constructor(message, stopped) {
    super(message);
    this.stopped = stopped;
  }
}

const contentOf = (id) => document.getElementById(id).textContent;
let workerAddress = null;
let module = null;

function moduleBytes() {
  if (!module) {
    const text = atob(contentOf("engine").trim());
    module = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) module[i] = text.charCodeAt(i);
  }
  return module.slice();
}

export class Engine {
  constructor() {
    workerAddress ??= URL.createObjectURL(
      new Blob([contentOf("worker")], { type: "text/javascript" }));
    this.worker = new Worker(workerAddress);
    this.waiting = new Map();
    this.next = 0;
    this.worker.onmessage = ({ data }) => this.settle(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.fail(event.message || "the engine's worker does not start");
    };
    const wasm = moduleBytes();
    this.worker.postMessage({ wasm }, [wasm.buffer]);
  }

  // Promise of the reply. `files`: [{name, bytes}]. It is rejected with EngineError.
  call(request, files = []) {
    if (!this.worker) return Promise.reject(new EngineError("this engine has ended", true));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, request, files });
    });
  }

  settle({ id, reply, files, error, stopped }) {
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    if (error === undefined) resolve({ ...reply, files });
    else reject(new EngineError(error, stopped));
  }

  fail(message) {
    const all = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of all) reject(new EngineError(message, true));
  }

  end() {
    this.worker?.terminate();
    this.worker = null;
    this.fail("this engine has ended");
  }
}
