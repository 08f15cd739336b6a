// Worker of the page: has an engine and answers one request after another.
//
// Messages to it: {wasm}, compressed bytes of the module, first; then {request, files}. From it, in
// the same order: {reply, files}, or {error, diverged}: the reason, and whether it is a training
// that diverged.
import { WasmEngine } from "./wasm_engine.js";

let compiled = null, engine = null;

function compile(wasm) {
  const bytes = new Blob([wasm]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(bytes).arrayBuffer().then((module) => WebAssembly.compile(module));
}

async function answer({ request, files }) {
  try {
    const module = await compiled;
    engine ??= new WasmEngine(module);
    const { reply, files: out } = engine.call(request, files ?? []);
    if (reply.error !== undefined) postMessage(reply);
    else postMessage({ reply, files: out }, out.map((file) => file.bytes.buffer));
  } catch (error) {
    engine = null; // it must not be used again; the next request makes another one
    postMessage({ error: String(error.message || error) });
  }
}

onmessage = ({ data }) => {
  if (data.wasm) {
    compiled = compile(data.wasm);
    compiled.catch(() => {}); // told by the first request
  } else {
    answer(data);
  }
};
