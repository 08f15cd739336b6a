#!/usr/bin/env python3
"""A training step of headcount against the same model in PyTorch.

Same shapes, batch and steps, taking turns in one run; prints medians, their ratio with its spread over
the rounds, and both processes' peak memory. PyTorch runs in the setting in which it is fastest: for each
size its threads are tried in the three ways that make sense (those of OpenMP and of OpenBLAS), in float32
and with autocast to bfloat16, as it is and compiled.

    python3 tests/bench/versus_pytorch.py --python /usr/bin/python3 .build/release/headcount
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

from pytorch_peer import CHARACTERS, Peer, fastest

TOY = "--preset nanogpt-cpu --layers 2 --heads 2 --dim 32 --context 32 --batch 8"
SIZES = {"nanogpt-cpu": "--preset nanogpt-cpu", "toy": TOY, "nanogpt-gpu": "--preset nanogpt-gpu"}


class Turns:
    """The two programs for one size and one attention."""

    def __init__(self, arguments, size, attention, folder, setting):
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as file:
            file.write("".join(random.Random(1).choices(CHARACTERS, k=100_000)))
        self.command = [arguments.program, "train", *SIZES[size].split(), "--attention", attention]
        self.command += ["--data", text, "--eval-every", "0", "--checkpoint-every", "0",
                         "--format", "json"]
        self.command += ["--threads", str(arguments.threads), "--out", os.path.join(folder, "run")]
        self.command += ["--force", "--quiet"]
        self.ours(1)
        with open(os.path.join(folder, "run", "config.json")) as file:
            config = json.load(file)
        self.setting = setting or fastest(arguments.python, config, arguments.threads)
        self.peer = Peer(arguments.python, config, self.setting)

    def ours(self, steps):
        child = subprocess.Popen([*self.command, "--steps", str(steps)], stdout=subprocess.PIPE)
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"headcount failed: {' '.join(self.command)}")
        result = json.loads(output)
        return {"ms": result["ms_per_step_median"], "params": result["params"],
                "peak_mb": usage.ru_maxrss / 1024}


def compare(arguments, size, attention, setting):
    with tempfile.TemporaryDirectory() as folder:
        turns = Turns(arguments, size, attention, folder, setting)
        pairs = []
        try:
            steps = arguments.steps or max(2, min(200, int(2000 / turns.peer.ms)))
            for _ in range(arguments.rounds):
                pairs.append((turns.ours(steps), turns.peer.run(steps)))
        finally:
            turns.peer.close()
    params = turns.peer.about["params"]
    if pairs[0][0]["params"] != params:
        sys.exit(f"{pairs[0][0]['params']} parameters here, {params} in PyTorch")
    ratios = sorted(theirs["ms"] / ours["ms"] for ours, theirs in pairs)
    median = {name: [statistics.median(p[i][name] for p in pairs) for i in (0, 1)]
              for name in ("ms", "peak_mb")}
    print(f"{size:12} {attention:6} {median['ms'][0]:9.2f} {median['ms'][1]:9.2f} "
          f"{statistics.median(ratios):6.2f}  {ratios[0]:5.2f} to {ratios[-1]:5.2f} "
          f"{median['peak_mb'][0]:7.0f} {median['peak_mb'][1]:8.0f} "
          f"{median['peak_mb'][1] / median['peak_mb'][0]:6.1f}", flush=True)
    return turns.setting, turns.peer.about["version"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the program headcount")
    parser.add_argument("--size", action="append", choices=SIZES, help="default: all")
    parser.add_argument("--attention", default="mha,gqa,mqa,mla", help="separated by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=0, help="of a round; default: about 2 seconds")
    parser.add_argument("--python", default=sys.executable, metavar="CMD",
                        help="runs a Python that has PyTorch; default: the one that runs this")
    arguments = parser.parse_args()
    print(f"{arguments.threads} threads, {arguments.rounds} rounds in turn, medians")
    print("size         attent.      ours   PyTorch  ratio  its spread      ours  PyTorch  ratio")
    print("                            ms        ms                       peak MB")
    for size in arguments.size or SIZES:
        setting = None
        for attention in arguments.attention.split(","):
            setting, version = compare(arguments, size, attention, setting)
    print(f"PyTorch {version}")


if __name__ == "__main__":
    main()
