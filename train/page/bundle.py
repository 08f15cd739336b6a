"""Makes one HTML file of the page: styles, scripts, the two WebAssembly modules and trained models
inside it, so that it opens from a disk and loads nothing. Scripts are ES modules here and become two classic scripts
there, since browsers load no modules from files: one of the page (main.js) and one of its workers.

Usage: python3 bundle.py --wasm engine.wasm --fused engine_fused.wasm --models models.zip
    --out headcount.html
"""
import argparse
import base64
import gzip
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
STYLES = ("../view/plot.css", "../view/passage.css", "page.css", "parts.css")
LARGEST = 3_000_000  # bytes of the page


def script(name):
    """Classic script with the contents of a module and all that it imports."""
    command = ["esbuild", "--bundle", "--charset=utf8", "--log-level=warning", FOLDER / name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def text_of(data):
    """Bytes as text."""
    return base64.b64encode(data).decode()


def compressed(module):
    """The file `module`, compressed, as text."""
    return text_of(gzip.compress(module.read_bytes(), mtime=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("wasm", "fused", "models", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options = parser.parse_args()
    html = (FOLDER / "page.html").read_text(encoding="utf-8")
    for place, content in {
            "@STYLE@": "".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES),
            "@ENGINE@": compressed(options.wasm), "@FUSED@": compressed(options.fused),
            "@MODELS@": text_of(options.models.read_bytes()),
            "@WORKER@": script("worker.js"), "@SCRIPT@": script("main.js")}.items():
        if html.count(place) != 1:
            sys.exit(f"page.html: needs {place} once")
        html = html.replace(place, content)
    page = html.encode()
    if len(page) > LARGEST:
        sys.exit(f"{options.out}: would have {len(page)} bytes, {LARGEST} are the most")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(page)


if __name__ == "__main__":
    main()
