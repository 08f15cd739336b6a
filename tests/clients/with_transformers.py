"""Opens checkpoint folders with transformers, and what transformers saves with headcount.

    python3 tests/clients/with_transformers.py PROGRAM [RUN_OR_CHECKPOINT...]

PROGRAM is the program headcount; without folders it trains small models first. For each folder: the
same tokens and text, an unknown character refused, the same logits, the same greedy text, and after
save_pretrained, whole and in shards, the same logits in headcount again. A Llama that transformers made
is converted to other attentions, and what comes of it is checked so too. Skipped where torch, transformers
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

# Conversions of a Llama by its number of key/value heads: the attention, and whether outputs stay equal.
CONVERSIONS = {4: {"gqa2": False, "mla24+8": False, "mla": False}, 2: {"mha": True, "mla16+8": False}}


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


def llama(kv_heads, like, folder):
    """A Llama of random weights, as transformers makes and saves it, with the tokenizer of `like`."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(like)
    torch.manual_seed(kv_heads)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=kv_heads, max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
        initializer_range=0.2)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def check_conversions(program, like, work):
    for kv_heads, targets in CONVERSIONS.items():
        source = work / f"llama-{kv_heads}"
        llama(kv_heads, like, source)
        for number, (target, exact) in enumerate(targets.items()):
            out = work / f"llama-{kv_heads}-{number}"
            headcount(program, "convert", "--from", source, "--attention", *target.split(), "--out", out)
            with tempfile.TemporaryDirectory(dir=work) as own:
                difference = check_folder(program, out, pathlib.Path(own))
            tokens = torch.arange(40)[None] % 5
            with torch.no_grad():
                before, after = (transformers.AutoModelForCausalLM.from_pretrained(f, dtype=torch.float32)(tokens).logits
                                 for f in (source, out))
            moved = (before - after).abs().max().item()
            check(moved < TOLERANCE if exact else moved > TOLERANCE, f"{target}: logits moved by {moved}")
            print(f"Llama with {kv_heads} KV heads to {target}: logits differ by at most {difference:.1e} from ours, "
                  f"moved by {moved:.1e}")


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
        check_conversions(program, newest_checkpoint(next(iter(folders.values()))), work)


if __name__ == "__main__":
    main()
