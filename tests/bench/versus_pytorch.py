#!/usr/bin/env python3
"""headcount against the same model in PyTorch, taking turns in one run:

    python3 tests/bench/versus_pytorch.py step .build/release/headcount
    python3 tests/bench/versus_pytorch.py loss .build/release/headcount --data input.txt \\
        --below 1.92 --ours "AdamW=--preset nanogpt-cpu" --ours "Muon=--preset shakespeare" > table
    node tests/bench/chart.mjs loss < table > loss.svg

`step`: medians of a training step with equal shapes, batch and steps, their ratio with its spread
over the rounds, and both processes' peak memory.
`loss`: seconds of training until the loss over the whole validation part is below a number, recipes
of headcount against nanoGPT's model and recipe, in each round with another seed. All are evaluated
every so many steps; the seconds are those of the training steps up to the first evaluation below
the number. Evaluations, the start of a process, compiling and checkpoints count for none of them.

PyTorch runs in the setting in which its step is fastest: threads of OpenMP and of OpenBLAS, float32
or autocast to bfloat16, as it is or compiled.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import typing

SIZES = {"nanogpt-cpu": "--preset nanogpt-cpu",
         "toy": "--preset nanogpt-cpu --layers 2 --heads 2 --dim 32 --context 32 --batch 8",
         "nanogpt-gpu": "--preset nanogpt-gpu"}


class Setting(typing.NamedTuple):
    """What PyTorch can be told: threads of OpenMP and of OpenBLAS, to compile, to round to bf16."""
    openmp: int
    openblas: int
    compiled: bool
    bf16: bool


class Peer(subprocess.Popen):
    """A process of pytorch_peer.py in one setting. `python` is the command that runs a Python that
    has PyTorch, `config` what a run's config.json holds."""

    def __init__(self, python, config, text, setting):
        environment = dict(os.environ, OMP_NUM_THREADS=str(setting.openmp),
                           OPENBLAS_NUM_THREADS=str(setting.openblas))
        script = pathlib.Path(__file__).with_name("pytorch_peer.py")
        super().__init__([*shlex.split(python), script], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, env=environment)
        self.about = self.call(config, text, setting.compiled, setting.bf16)
        self.call("run", 1)  # compiles
        self.ms = self.call("run", 1)["ms"]

    def call(self, *values):
        print(json.dumps(values), file=self.stdin, flush=True)
        return json.loads(self.stdout.readline())


def fastest(python, config, text, threads):
    """The setting with the least median of a second of steps, or of one that takes longer; prints
    them all. Those that fail, as compiled ones do without a C++ compiler, are left out."""
    times = {}
    pools = sorted({(1, threads), (threads, 1), (1, 1)})
    for compiled, bf16, pool in itertools.product((False, True), (False, True), pools):
        setting = Setting(*pool, compiled, bf16)
        try:
            with Peer(python, config, text, setting) as peer:
                times[setting] = peer.call("run", max(1, min(100, int(1000 / peer.ms))))["ms"]
            print(f"    {setting}: {times[setting]:.2f} ms")
        except (ValueError, BrokenPipeError):
            print(f"    {setting} fails; what it said stands above")
    return min(times, key=times.get)


class Recipe:
    """A name, flags of `headcount train` for a text, and the settings that they make."""

    def __init__(self, arguments, name, flags, data):
        self.name, self.flags = name, flags
        self.command = [arguments.program, "train", "--data", data, *flags.split(),
                        "--threads", str(arguments.threads)]
        self.config, _ = self.output("--print-config")

    def output(self, *flags):
        """What the program says in JSON, and its peak memory in MB."""
        child = subprocess.Popen([*self.command, *flags], stdout=subprocess.PIPE)
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"headcount failed: {' '.join(self.command)}")
        return json.loads(output), usage.ru_maxrss / 1024

    def train(self, *flags):
        """What a training says, its peak memory, and the lines of metrics.jsonl."""
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            result, peak = self.output("--checkpoint-every", "0", "--out", run, "--quiet",
                                       "--format", "json", *flags)
            lines = (run / "metrics.jsonl").read_text().splitlines()
            return result, peak, [json.loads(line) for line in lines]


def compare_steps(arguments):
    print("size         attent.      ours   PyTorch  ratio  its spread      ours  PyTorch  ratio")
    print("                            ms        ms                       peak MB")
    characters = "".join(random.Random(1).choices([chr(33 + i) for i in range(65)], k=100_000))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "text.txt")
        file.write_text(characters)
        for size in arguments.size or SIZES:
            setting = None
            for attention in arguments.attention.split(","):
                recipe = Recipe(arguments, size,
                                f"{SIZES[size]} --attention {attention} --eval-every 0", file)
                common = (arguments.python, recipe.config, characters)
                setting = setting or fastest(*common, arguments.threads)
                with Peer(*common, setting) as peer:
                    print(f"{size:12} {attention:6} {steps_line(arguments, recipe, peer)}")
    print(f"PyTorch {peer.about['version']}")


def steps_line(arguments, recipe, peer):
    steps = arguments.steps or max(2, min(200, int(2000 / peer.ms)))
    ms, peaks = [], []  # of both, by round
    for _ in range(arguments.rounds):
        result, peak, _ = recipe.train("--steps", str(steps))
        theirs = peer.call("run", steps)
        ms.append((result["ms_per_step_median"], theirs["ms"]))
        peaks.append((peak, theirs["peak_mb"]))
    if result["params"] != peer.about["params"]:
        sys.exit(f"{result['params']} parameters here, {peer.about['params']} in PyTorch")
    ratios = sorted(theirs / ours for ours, theirs in ms)
    our_ms, their_ms = map(statistics.median, zip(*ms))
    our_peak, their_peak = map(statistics.median, zip(*peaks))
    return (f"{our_ms:9.2f} {their_ms:9.2f} {statistics.median(ratios):6.2f}  "
            f"{ratios[0]:5.2f} to {ratios[-1]:5.2f} {our_peak:7.0f} {their_peak:8.0f} "
            f"{their_peak / our_peak:6.1f}")


# A curve has a run's evaluations: (seconds of training before it, steps, loss). It ends with the
# first one below the number.
def our_curve(arguments, recipe, seed):
    result, _, lines = recipe.train("--seed", str(seed), "--eval-every", str(arguments.every),
                                    "--stop-at-loss", str(arguments.below))
    # All steps cost the same, so those up to an evaluation take their share of the whole time.
    tokens = recipe.config["batch"] * recipe.config["accumulate"] * recipe.config["context"]
    each = tokens / result["tokens_per_second"]
    return [(each * s["step"], s["step"], s["val_loss"]) for s in lines if "val_loss" in s]


def their_curve(arguments, recipe, peer, seed):
    peer.call("restart", seed)
    curve, seconds, done = [], 0.0, 0
    while done < recipe.config["steps"] and not (curve and curve[-1][2] < arguments.below):
        steps = min(arguments.every, recipe.config["steps"] - done)
        seconds += peer.call("run", steps)["seconds"]
        done += steps
        curve.append((seconds, done, peer.call("evaluate")))
    return curve


def compare_losses(arguments):
    with open(arguments.data, encoding="utf-8", newline="") as file:
        text = file.read()
    recipes = [Recipe(arguments, *named.split("=", 1), arguments.data) for named in arguments.ours]
    theirs = Recipe(arguments, "PyTorch", arguments.theirs, arguments.data)
    for recipe in (*recipes, theirs):
        print(f"{recipe.name}: {recipe.flags}, {recipe.config['steps']} steps")
    setting = fastest(arguments.python, theirs.config, text, arguments.threads)
    curves = {recipe.name: [] for recipe in (*recipes, theirs)}
    width = max(map(len, curves))
    with Peer(arguments.python, theirs.config, text, setting) as peer:
        print(f"PyTorch {peer.about['version']}: {setting}")
        print(f"{'':{width}} round   steps     loss   seconds")
        for seed in range(1, arguments.rounds + 1):
            for recipe in (*recipes, theirs):
                curve = (their_curve(arguments, recipe, peer, seed) if recipe is theirs
                         else our_curve(arguments, recipe, seed))
                curves[recipe.name].append(curve)
                seconds, steps, loss = curve[-1]
                print(f"{recipe.name:{width}} {seed:5} {steps:7} {loss:8.4f} {seconds:9.1f}")
    for name, mine in curves.items():
        print(f"{name:{width}}  {summary(mine, curves['PyTorch'], arguments.below)}")
    print("curves of round 1: seconds, steps, loss")
    for name, (first, *_) in curves.items():
        for seconds, steps, loss in first:
            print(f"{name} {seconds:.2f} {steps} {loss:.4f}")


def summary(mine, theirs, below):
    """Median seconds of a recipe, and its ratio to PyTorch's of the same round."""
    if any(curve[-1][2] >= below for curve in mine + theirs):
        return f"no ratio, since it or PyTorch has not come below {below} in each round"
    ratios = sorted(other[-1][0] / curve[-1][0] for curve, other in zip(mine, theirs))
    return (f"{statistics.median(curve[-1][0] for curve in mine):8.1f} s, "
            f"{statistics.median(ratios):.2f} times as fast as PyTorch "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, compare, rounds in (("step", compare_steps, 7), ("loss", compare_losses, 3)):
        command = commands.add_parser(name)
        command.set_defaults(compare=compare)
        command.add_argument("program", help="the program headcount")
        command.add_argument("--threads", type=int, default=os.cpu_count())
        command.add_argument("--rounds", type=int, default=rounds)
        command.add_argument("--python", default=sys.executable, metavar="CMD",
                             help="runs a Python that has PyTorch; default: the one that runs this")
        if compare is compare_steps:
            command.add_argument("--size", action="append", choices=SIZES, help="default: all")
            command.add_argument("--attention", default="mha,gqa,mqa,mla", help="with commas")
            command.add_argument("--steps", type=int, help="of a round; default: 2 seconds")
            continue
        command.add_argument("--data", required=True, help="a text file")
        command.add_argument("--below", required=True, type=float, help="nats a character")
        command.add_argument("--ours", required=True, action="append", metavar="NAME=FLAGS",
                             help="a recipe as flags of headcount train; may be repeated")
        command.add_argument("--theirs", default="--preset nanogpt-cpu", metavar="FLAGS",
                             help="recipe of PyTorch, one that nanoGPT has; default: %(default)s")
        command.add_argument("--every", type=int, default=50, help="steps between evaluations")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    print(f"{arguments.threads} threads, {arguments.rounds} rounds in turn, medians")
    arguments.compare(arguments)


if __name__ == "__main__":
    main()
