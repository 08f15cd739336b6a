// Runs the gradient checks of all ops in WebAssembly: node gradients.mjs gradients.wasm
import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module))
  (imports[from] ??= {})[name] = () => 52;
const { exports } = new WebAssembly.Instance(module, imports);
exports._initialize();
const text = (pointer) => {
  const bytes = new Uint8Array(exports.memory.buffer);
  return new TextDecoder().decode(bytes.slice(pointer, bytes.indexOf(0, pointer)));
};
let derivatives = 0;
for (let op = 0; op < exports.op_count(); ++op) {
  const compared = exports.check_op(op);
  if (compared === 0) throw new Error(`${text(exports.op_name(op))}: nothing was compared`);
  derivatives += compared;
}
const failed = text(exports.failed());
if (failed !== "") {
  console.error(failed);
  process.exit(1);
}
console.log(`${exports.op_count()} ops, ${derivatives} derivatives agree`);
