"""Opens checkpoint folders with transformers, and what transformers saves with headcount.

    python3 tests/clients/with_transformers.py PROGRAM [RUN_OR_CHECKPOINT...]

PROGRAM is the program headcount; without folders it trains small models first. For each folder: the
same tokens and text, an unknown character refused, the same logits, the same greedy text, and after
save_pretrained, whole and in shards, the same logits in headcount again. Skipped where torch, transformers
or safetensors is missing. (Its name is not transformers.py because Python would then import this file by
that name.)
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ModuleNotFoundError as error:
    print(f"skipped: Python has no {error.name}")
    sys.exit()

TOLERANCE = 1e-4
MODELS = {
    "mha": "--attention mha", "mqa": "--attention mqa",
    "gqa, tied, biases": "--attention gqa --tie-embeddings --bias",
    "mla": "--attention mla", "mla with query rank, heads of 12": "--attention mla --q-rank 24 --heads 3 --head-dim 12",
}


def headcount(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE).stdout


def newest_checkpoint(path):
    steps = sorted((path / "checkpoints").glob("step-*"), key=lambda p: int(p.name[5:]))
    return steps[-1] if steps else path


def our_logits(program, folder, text, work):
    output = work / "logits.safetensors"
    headcount(program, "eval", "--from", folder, "--data", text, "--logits", output,
              "--format", "json")
    tensors = load_file(output)
    return tensors["tokens"].long(), tensors["logits"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_folder(program, folder, work):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    context = model.config.max_position_embeddings
    start = tokenizer.decode([1])
    sampled = json.loads(headcount(program, "sample", "--from", folder, "--prompt", start, "--tokens",
                                   3 * context, "--format", "json"))
    text = start + sampled["text"]
    file = work / "text.txt"
    file.write_text(text, newline="")
    tokens, logits = our_logits(program, folder, file, work)

    ids = tokenizer(text).input_ids
    check(ids[:context] == tokens.tolist(), "tokens differ")
    check(tokenizer.decode(ids) == text, "the text does not come back")
    try:
        tokenizer("\u4e16")
        check(False, "an unknown character is taken")
    except Exception as error:
        check("nk" in str(error), f"unknown character: {error}")
    with torch.no_grad():
        difference = (model(tokens[None]).logits[0] - logits).abs().max().item()
    check(difference < TOLERANCE, f"logits differ by {difference}")

    prompt = tokenizer(text[:8], return_tensors="pt")
    written = tokenizer.decode(model.generate(**prompt, max_new_tokens=context - 8, do_sample=False)[0])
    ours = headcount(program, "sample", "--from", folder, "--prompt", text[:8], "--tokens", context - 8,
                     "--temperature", 0).decode()
    check(written.strip() in ours, f"greedy texts differ:\n{written}\n{ours}")

    for name, options in {"whole": {}, "shards": {"max_shard_size": "50KB"}}.items():
        again = work / name
        model.save_pretrained(again, **options)
        tokenizer.save_pretrained(again)
        check((again / "model.safetensors").exists() == (name == "whole"), "not saved as asked")
        check(torch.equal(our_logits(program, again, file, work)[1], logits), f"{name}: other logits")
    return difference


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as work_name:
        work = pathlib.Path(work_name)
        folders = {name: pathlib.Path(name) for name in sys.argv[2:]}
        if not folders:
            for i, (name, flags) in enumerate(MODELS.items()):
                folders[name] = work / f"run-{i}"
                headcount(program, "train", *flags.split(), *"--layers 2 --dim 64 --context 64 --steps 100 --score-scale inv-sqrt".split(),
                          "--lr", "3e-3", "--quiet", "--out", folders[name])
        print(f"transformers {transformers.__version__}, torch {torch.__version__}")
        for name, folder in folders.items():
            with tempfile.TemporaryDirectory(dir=work) as own:
                difference = check_folder(program, newest_checkpoint(folder), pathlib.Path(own))
            print(f"{name}: logits differ by at most {difference:.1e}; saved again, whole and in shards: the same")


if __name__ == "__main__":
    main()
