"""Opens checkpoint folders with transformers, and what transformers saves with headcount.

    python3 tests/clients/with_transformers.py PROGRAM [RUN_OR_CHECKPOINT...]

PROGRAM is the program headcount; without folders it trains small models first. For each folder: the
same tokens and text, an unknown character refused, the same logits, the same greedy text, and after
save_pretrained, whole and in shards, the same logits in headcount again. Skipped where torch,
transformers or safetensors is missing. (Its name is not transformers.py because Python would then
import this file by that name.)
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
MODELS = ("--attention mha", "--attention mqa", "--attention gqa --tie-embeddings --bias",
          "--attention mla", "--attention mla --q-rank 24 --heads 3 --head-dim 12")
SMALL = ("--data tales --layers 2 --dim 64 --context 64 --steps 100 --lr 3e-3 "
         "--score-scale inv-sqrt --quiet")


def headcount(*arguments):
    command = [pathlib.Path(sys.argv[1]).resolve(), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()


def newest_checkpoint(path):
    steps = sorted((path / "checkpoints").glob("step-*"), key=lambda p: int(p.name[5:]))
    return steps[-1] if steps else path


def our_logits(folder, text, work):
    output = work / "logits.safetensors"
    headcount("eval", "--from", folder, "--data", text, "--logits", output, "--format", "json")
    tensors = load_file(output)
    return tensors["tokens"].long(), tensors["logits"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_folder(folder, work):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    context = model.config.max_position_embeddings
    start = tokenizer.decode([1])
    text = start + json.loads(headcount("sample", "--from", folder, "--prompt", start, "--tokens",
                                        3 * context, "--format", "json"))["text"]
    file = work / "text.txt"
    file.write_text(text, newline="")
    tokens, logits = our_logits(folder, file, work)

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

    count = context - 8
    prompt = tokenizer(text[:8], return_tensors="pt")
    greedy = model.generate(**prompt, max_new_tokens=count, do_sample=False)[0]
    written = tokenizer.decode(greedy).strip()
    ours = headcount("sample", "--from", folder, "--prompt", text[:8], "--tokens", count,
                     "--temperature", 0)
    check(written in ours, f"greedy texts differ:\n{written}\n{ours}")

    for name, options in {"whole": {}, "shards": {"max_shard_size": "50KB"}}.items():
        again = work / name
        model.save_pretrained(again, **options)
        tokenizer.save_pretrained(again)
        check((again / "model.safetensors").exists() == (name == "whole"), "not saved as asked")
        check(torch.equal(our_logits(again, file, work)[1], logits), f"{name}: other logits")
    return difference


print(f"transformers {transformers.__version__}, torch {torch.__version__}")
with tempfile.TemporaryDirectory() as folder:
    runs = {name: pathlib.Path(name) for name in sys.argv[2:]}
    if not runs:
        for flags in MODELS:
            runs[flags] = pathlib.Path(folder, f"run-{len(runs)}")
            headcount("train", *flags.split(), *SMALL.split(), "--out", runs[flags])
    for name, run in runs.items():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            difference = check_folder(newest_checkpoint(run), pathlib.Path(work))
        print(f"{name}: logits differ by at most {difference:.1e}; saved again, the same")
