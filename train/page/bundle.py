"""Makes one HTML file of the page: styles, scripts and the two WebAssembly modules inside it, so that
it opens from a disk and loads nothing.

Scripts are ES modules here and become two classic scripts there, since browsers load no modules
from files: one of the page (main.js and what it imports), one of its workers (worker.js and what it
imports). Modules of one script share a scope, so their top-level names must differ; the bundler
checks this. It understands the one form of import and export that these files use:

    import { a, b } from "./file.js";
    export function a() {}

Usage: python3 bundle.py --wasm engine.wasm --fused engine_fused.wasm --out headcount.html
       [--worker worker.js]
"""
import argparse
import base64
import gzip
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
LARGEST = 3_000_000  # bytes of the page
IMPORT = re.compile(r'^import \{[^}]*\}\s+from "(\.\.?/[\w./]+)";\n', re.MULTILINE)
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)",
                       re.MULTILINE)


def modules(entry, found):
    """Adds `entry` to `found`, a dictionary of path and text, after all modules that it imports."""
    if entry in found:
        return found
    text = entry.read_text(encoding="utf-8")
    found[entry] = None  # a circle of imports ends here; functions do not mind it
    for name in IMPORT.findall(text):
        modules((entry.parent / name).resolve(), found)
    del found[entry]
    found[entry] = text
    return found


def script(entry):
    """Classic script with the contents of `entry` and all modules that it imports."""
    owners, parts = {}, []
    for path, text in modules(entry, {}).items():
        for name in TOP_LEVEL.findall(text):
            if name in owners:
                sys.exit(f"{path.name}: {name} is also a name of {owners[name]}; rename one")
            owners[name] = path.name
        body = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)
        if re.search(r"^(import|export)\b", body, re.MULTILINE):
            sys.exit(f"{path.name}: has a form of import or export that bundle.py does not know")
        if re.search(r"</script|<!--", body, re.IGNORECASE):
            sys.exit(f"{path.name}: would end its element; write </script and <!-- in two parts")
        parts.append(f"// {path.name}\n{body.strip()}\n")
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def compressed(module):
    """The file `module`, compressed, as text."""
    return base64.b64encode(gzip.compress(module.read_bytes(), mtime=0)).decode()


def page(wasm, fused, worker):
    """HTML of the whole page, from the paths of the modules and of the worker's script."""
    styles = "".join((FOLDER / name).read_text(encoding="utf-8")
                     for name in ("../view/plot.css", "page.css", "parts.css"))
    contents = {
        "STYLE": styles,
        "ENGINE": compressed(wasm),
        "FUSED": compressed(fused),
        "WORKER": script(worker),
        "SCRIPT": script(FOLDER / "main.js"),
    }
    html = (FOLDER / "page.html").read_text(encoding="utf-8")
    for name, content in contents.items():
        place = f"@{name}@"
        if html.count(place) != 1:
            sys.exit(f"page.html: needs {place} once")
        html = html.replace(place, content)
    return html


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--wasm", type=pathlib.Path, required=True, help="the WebAssembly module")
    parser.add_argument("--fused", type=pathlib.Path, required=True,
                        help="the module for browsers with fused multiply-add")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the page to write")
    parser.add_argument("--worker", type=pathlib.Path, default=FOLDER / "worker.js",
                        help="script of the workers, if it is not the page's own")
    options = parser.parse_args()
    html = page(options.wasm, options.fused, options.worker).encode()
    if len(html) > LARGEST:
        sys.exit(f"{options.out}: would have {len(html)} bytes, {LARGEST} are the most")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(html)


if __name__ == "__main__":
    main()
