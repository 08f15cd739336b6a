#!/usr/bin/env python3
"""Seconds of training until the loss over the whole validation part is below a number: recipes of
headcount against nanoGPT's model and recipe in PyTorch.

All take turns, in each round with another seed. They are evaluated every so many steps; the seconds are
those of the training steps up to the first evaluation below the number. Evaluations, the start of a
process, compiling and checkpoints do not count, for any of them. PyTorch runs in the setting in which its
step is fastest: threads of OpenMP and of OpenBLAS, float32 or autocast to bfloat16, as it is or compiled.

    python3 tests/bench/time_to_loss.py .build/release/headcount --data input.txt --below 1.92 \\
        --ours "AdamW=--preset nanogpt-cpu" --ours "Muon=--preset shakespeare" | tee table
    node tests/bench/chart.mjs loss < table > loss.svg
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from pytorch_peer import Peer, fastest

PYTORCH = "PyTorch"


class Run:
    """Evaluations of a training run, in its order: (seconds of training before it, steps, loss)."""

    def __init__(self, curve, below):
        self.curve = curve
        self.reached = next((point for point in curve if point[2] < below), None)
        self.best = min(loss for _, _, loss in curve)

    def __str__(self):
        if not self.reached:
            return f"{self.curve[-1][1]:7} {self.best:8.4f}  not below it"
        return "{1:7} {2:8.4f} {0:9.1f} s".format(*self.reached)


def say(text):
    print(text, flush=True)


def output_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"headcount failed: {' '.join(command)}")
    return json.loads(done.stdout)


class Recipe:
    """A recipe of headcount: a name, flags of `headcount train`, and the settings that they make."""

    def __init__(self, arguments, text):
        self.name, _, flags = text.partition("=")
        if not flags:
            sys.exit(f"time_to_loss: a recipe is NAME=FLAGS, not '{text}'")
        self.command = [arguments.program, "train", "--data", arguments.data, *flags.split()]
        self.flags, self.config = flags, output_of([*self.command, "--print-config"])
        self.params = 0

    def run(self, arguments, seed):
        with tempfile.TemporaryDirectory() as folder:
            result = output_of([
                *self.command, "--seed", str(seed), "--eval-every", str(arguments.every),
                "--checkpoint-every", "0", "--threads", str(arguments.threads),
                "--out", os.path.join(folder, "run"), "--quiet", "--format", "json"])
            with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
                steps = [json.loads(line) for line in file]
        self.params = result["params"]
        # All steps cost the same, so those up to an evaluation take their share of the whole time.
        tokens = self.config["batch"] * self.config["accumulate"] * self.config["context"]
        each = tokens / result["tokens_per_second"]
        curve = [(each * s["step"], s["step"], s["val_loss"]) for s in steps if "val_loss" in s]
        return Run(curve, arguments.below)


def their_run(arguments, config, peer, seed):
    peer.order(f"restart {seed}")
    curve, seconds, done = [], 0.0, 0
    while done < config["steps"] and not (curve and curve[-1][2] < arguments.below):
        steps = min(arguments.every, config["steps"] - done)
        seconds += peer.run(steps)["seconds"]
        done += steps
        curve.append((seconds, done, peer.order("evaluate")["loss"]))
    return Run(curve, arguments.below)


def machine():
    with open("/proc/cpuinfo") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    about = {key.strip(): value.strip() for key, value in lines.items()}
    units = [f for f in ("avx512_bf16", "amx_bf16") if f in about.get("flags", "").split()]
    return f"{about.get('model name', 'unknown processor')}, {' '.join(units) or 'no bfloat16 units'}"


def compare(arguments, recipes, theirs, text):
    """Runs by name, in the order of the rounds."""
    setting = fastest(arguments.python, theirs, arguments.threads, text)
    peer = Peer(arguments.python, theirs, setting, text)
    runs = {name: [] for name in (*(recipe.name for recipe in recipes), PYTORCH)}
    width = max(len(name) for name in runs)
    say(f"{setting}; version {peer.about['version']}")
    say(f"{'':{width}} round  precision   params   steps     loss       time")

    def note(name, seed, precision, params, run):
        runs[name].append(run)
        say(f"{name:{width}} {seed:5} {precision:>10} {params:8} {run}")

    try:
        for seed in range(1, arguments.rounds + 1):
            for recipe in recipes:
                run = recipe.run(arguments, seed)
                note(recipe.name, seed, recipe.config.get("precision", "f32"), recipe.params, run)
            note(PYTORCH, seed, "bf16" if setting.bf16 else "f32", peer.about["params"],
                 their_run(arguments, theirs, peer, seed))
    finally:
        peer.close()
    return runs


def summary(runs):
    """A line for each recipe: its median seconds, and its ratio to PyTorch's of the same round."""
    width = max(len(name) for name in runs)
    for name, mine in runs.items():
        reached = [run.reached[0] for run in mine if run.reached]
        if not reached:
            yield f"{name:{width}}  below it in no round"
            continue
        ratios = sorted(theirs.reached[0] / run.reached[0] for run, theirs in zip(mine, runs[PYTORCH])
                        if run.reached and theirs.reached)
        line = f"{name:{width}}  {statistics.median(reached):8.1f} s, median of {len(reached)}"
        if ratios and name != PYTORCH:
            line += (f"; {statistics.median(ratios):.2f} times as fast as PyTorch"
                     f" ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the program headcount")
    parser.add_argument("--data", required=True, help="a text file")
    parser.add_argument("--below", required=True, type=float, help="nats a character")
    parser.add_argument("--ours", required=True, action="append", metavar="NAME=FLAGS",
                        help="a recipe of headcount, as flags of headcount train; may be repeated")
    parser.add_argument("--theirs", default="--preset nanogpt-cpu", metavar="FLAGS",
                        help="recipe of PyTorch, one that nanoGPT has; default: %(default)s")
    parser.add_argument("--every", type=int, default=50, help="steps between evaluations")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, metavar="CMD",
                        help="runs a Python that has PyTorch; default: the one that runs this")
    arguments = parser.parse_args()
    with open(arguments.data, encoding="utf-8", newline="") as file:
        text = file.read()
    recipes = [Recipe(arguments, recipe) for recipe in arguments.ours]
    theirs = Recipe(arguments, f"{PYTORCH}={arguments.theirs}").config
    say(f"{machine()}; {arguments.threads} threads, {arguments.rounds} rounds in turn")
    say(f"until the loss over the whole validation part is below {arguments.below} nats a character")
    for recipe in recipes:
        say(f"{recipe.name}: {recipe.flags}, {recipe.config['steps']} steps")
    say(f"{PYTORCH}: {arguments.theirs}, {theirs['steps']} steps")
    runs = compare(arguments, recipes, theirs, text)
    for line in summary(runs):
        say(line)
    say("curves of round 1: seconds, steps, loss")
    for name, (first, *_) in runs.items():
        for seconds, steps, loss in first.curve:
            say(f"{name} {seconds:.2f} {steps} {loss:.4f}")


if __name__ == "__main__":
    main()
