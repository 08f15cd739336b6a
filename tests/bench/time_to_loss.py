#!/usr/bin/env python3
"""Seconds of training until the loss over the whole validation part is below a number: headcount against
nanoGPT's model and recipe in PyTorch.

The two take turns, in each round with another seed. Both are evaluated every so many steps; the seconds
are those of the training steps up to the first evaluation below the number. Evaluations, the start of a
process, compiling and checkpoints do not count, for either. PyTorch runs in the setting in which its step
is fastest: threads of OpenMP and of OpenBLAS, float32 or autocast to bfloat16, as it is or compiled.

    python3 tests/bench/time_to_loss.py .build/release/headcount --data input.txt --below 1.92 \\
        --ours "--preset shakespeare" --theirs "--preset nanogpt-cpu" | tee table
    .build/release/tests/bench/chart loss loss.svg < table
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from pytorch_peer import Peer, fastest


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


def train_command(arguments, flags):
    return [arguments.program, "train", "--data", arguments.data, *flags.split()]


def config_of(arguments, flags):
    return output_of([*train_command(arguments, flags), "--print-config"])


def our_run(arguments, config, seed):
    with tempfile.TemporaryDirectory() as folder:
        result = output_of([
            *train_command(arguments, arguments.ours), "--seed", str(seed), "--eval-every",
            str(arguments.every), "--checkpoint-every", "0", "--threads", str(arguments.threads),
            "--out", os.path.join(folder, "run"), "--quiet", "--json"])
        with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
            steps = [json.loads(line) for line in file]
    # All steps cost the same, so those up to an evaluation take their share of the whole time.
    tokens = config["batch"] * config["accumulate"] * config["context"]
    each = tokens / result["tokens_per_second"]
    curve = [(each * s["step"], s["step"], s["val_loss"]) for s in steps if "val_loss" in s]
    return Run(curve, arguments.below), result["params"]


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


def compare(arguments, config, theirs, text):
    setting = fastest(arguments.python, theirs, arguments.threads, text)
    peer = Peer(arguments.python, theirs, setting, text)
    rounds = []
    say(f"{setting}; version {peer.about['version']}")
    say(f"{'':10} round  precision   params   steps     loss       time")
    try:
        for seed in range(1, arguments.rounds + 1):
            ours, params = our_run(arguments, config, seed)
            rounds.append((ours, their_run(arguments, theirs, peer, seed)))
            for name, precision, count, run in (
                    ("headcount", config.get("precision", "f32"), params, rounds[-1][0]),
                    ("PyTorch", "bf16" if setting.bf16 else "f32", peer.about["params"],
                     rounds[-1][1])):
                say(f"{name:10} {seed:5} {precision:>10} {count:8} {run}")
    finally:
        peer.close()
    return rounds


def summary(rounds):
    both = [(ours.reached[0], theirs.reached[0]) for ours, theirs in rounds
            if ours.reached and theirs.reached]
    if not both:
        return "no round in which both came below it"
    ratios = sorted(theirs / ours for ours, theirs in both)
    return ("medians of {} rounds: headcount {:.1f} s, PyTorch {:.1f} s, {:.2f} times ({:.2f} to {:.2f})"
            .format(len(both), *(statistics.median(pair[i] for pair in both) for i in (0, 1)),
                    statistics.median(ratios), ratios[0], ratios[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the program headcount")
    parser.add_argument("--data", required=True, help="a text file")
    parser.add_argument("--below", required=True, type=float, help="nats a character")
    parser.add_argument("--ours", default="--preset shakespeare", metavar="FLAGS",
                        help="recipe of headcount, as flags of headcount train; default: %(default)s")
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
    config, theirs = config_of(arguments, arguments.ours), config_of(arguments, arguments.theirs)
    say(f"{machine()}; {arguments.threads} threads, {arguments.rounds} rounds in turn")
    say(f"until the loss over the whole validation part is below {arguments.below} nats a character")
    say(f"headcount: {arguments.ours}; PyTorch: {arguments.theirs}, {theirs['steps']} steps")
    rounds = compare(arguments, config, theirs, text)
    say(summary(rounds))
    say("curves of round 1: seconds, steps, loss")
    for name, run in zip(("headcount", "PyTorch"), rounds[0]):
        for seconds, steps, loss in run.curve:
            say(f"{name} {seconds:.2f} {steps} {loss:.4f}")


if __name__ == "__main__":
    main()
