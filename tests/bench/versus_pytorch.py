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
import contextlib
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

PYTORCH = "PyTorch"
SIZES = {"nanogpt-cpu": "--preset nanogpt-cpu",
         "toy": "--preset nanogpt-cpu --layers 2 --heads 2 --dim 32 --context 32 --batch 8",
         "nanogpt-gpu": "--preset nanogpt-gpu"}


def say(text):
    print(text, flush=True)


class PeerEnded(Exception):
    pass


class Setting(typing.NamedTuple):
    """What PyTorch can be told: threads of OpenMP and of OpenBLAS, to compile, to round to bf16."""

    openmp: int
    openblas: int
    compiled: bool
    bf16: bool

    def __str__(self):
        return (f"PyTorch{' compiled' * self.compiled}{' bf16' * self.bf16}, "
                f"threads {self.openmp} of OpenMP, {self.openblas} of OpenBLAS")


class Peer:
    """A process of pytorch_peer.py in one setting. `python` is the command that runs a Python that
    has PyTorch, `config` what a run's config.json holds."""

    def __init__(self, python, config, text, setting):
        environment = dict(os.environ, OMP_NUM_THREADS=str(setting.openmp),
                           OPENBLAS_NUM_THREADS=str(setting.openblas))
        self.worker = subprocess.Popen(
            [*shlex.split(python), pathlib.Path(__file__).with_name("pytorch_peer.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.say(config, text, setting.compiled, setting.bf16)
        self.about = self.call("about")
        self.call("run", 1)  # compiles
        self.ms = self.call("run", 1)["ms"]

    def say(self, *values):
        print(json.dumps(values), file=self.worker.stdin, flush=True)

    def call(self, method, *arguments):
        self.say(method, *arguments)
        line = self.worker.stdout.readline()
        if not line:
            raise PeerEnded
        return json.loads(line)

    def close(self):
        self.worker.stdin.close()
        self.worker.wait()


def fastest(python, config, text, threads):
    """The setting with the least median of a second of steps, or of one that takes longer; prints
    them all. Compiling needs a C++ compiler; where it fails, the settings with it are left out."""
    times, compiles = {}, True
    pools = sorted({(1, threads), (threads, 1), (1, 1)})
    for compiled, bf16, pool in itertools.product((False, True), (False, True), pools):
        if compiled and not compiles:
            continue
        setting = Setting(*pool, compiled, bf16)
        try:
            with contextlib.closing(Peer(python, config, text, setting)) as peer:
                steps = min(100, int(1000 / peer.ms))
                times[setting] = peer.call("run", steps)["ms"] if steps > 0 else peer.ms
        except (PeerEnded, BrokenPipeError):
            if not compiled:
                sys.exit("PyTorch's process ended; what it said stands above")
            compiles = False
            say("    PyTorch cannot compile here; what it said stands above")
            continue
        say(f"    {setting}: {times[setting]:.2f} ms")
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
    say(f"{arguments.threads} threads, {arguments.rounds} rounds in turn, medians")
    say("size         attent.      ours   PyTorch  ratio  its spread      ours  PyTorch  ratio")
    say("                            ms        ms                       peak MB")
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
                with contextlib.closing(Peer(*common, setting)) as peer:
                    say(f"{size:12} {attention:6} {steps_line(arguments, recipe, peer)}")
    say(f"PyTorch {peer.about['version']}")


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


class Run:
    """Evaluations of a training run, in its order: (seconds of training before it, steps, loss)."""

    def __init__(self, curve, below):
        self.curve = curve
        self.reached = next((point for point in curve if point[2] < below), None)

    def __str__(self):
        if not self.reached:
            best = min(loss for _, _, loss in self.curve)
            return f"{self.curve[-1][1]:7} {best:8.4f}  not below it"
        return "{1:7} {2:8.4f} {0:9.1f} s".format(*self.reached)


def our_run(arguments, recipe, seed):
    """Its number of parameters, and the run."""
    result, _, lines = recipe.train("--seed", str(seed), "--eval-every", str(arguments.every))
    # All steps cost the same, so those up to an evaluation take their share of the whole time.
    tokens = recipe.config["batch"] * recipe.config["accumulate"] * recipe.config["context"]
    each = tokens / result["tokens_per_second"]
    curve = [(each * s["step"], s["step"], s["val_loss"]) for s in lines if "val_loss" in s]
    return result["params"], Run(curve, arguments.below)


def their_run(arguments, recipe, peer, seed):
    peer.call("restart", seed)
    curve, seconds, done = [], 0.0, 0
    while done < recipe.config["steps"] and not (curve and curve[-1][2] < arguments.below):
        steps = min(arguments.every, recipe.config["steps"] - done)
        seconds += peer.call("run", steps)["seconds"]
        done += steps
        curve.append((seconds, done, peer.call("evaluate")))
    return peer.about["params"], Run(curve, arguments.below)


def compare_losses(arguments):
    with open(arguments.data, encoding="utf-8", newline="") as file:
        text = file.read()
    recipes = [Recipe(arguments, *named.split("=", 1), arguments.data) for named in arguments.ours]
    theirs = Recipe(arguments, PYTORCH, arguments.theirs, arguments.data)
    say(f"{arguments.threads} threads, {arguments.rounds} rounds in turn, until the loss over the "
        f"whole validation part is below {arguments.below} nats a character")
    for recipe in (*recipes, theirs):
        say(f"{recipe.name}: {recipe.flags}, {recipe.config['steps']} steps")
    setting = fastest(arguments.python, theirs.config, text, arguments.threads)
    precisions = {recipe.name: recipe.config.get("precision", "f32") for recipe in recipes}
    precisions[PYTORCH] = "bf16" if setting.bf16 else "f32"
    runs = {name: [] for name in precisions}
    width = max(map(len, runs))
    with contextlib.closing(Peer(arguments.python, theirs.config, text, setting)) as peer:
        say(f"{setting}; version {peer.about['version']}")
        say(f"{'':{width}} round  precision   params   steps     loss       time")
        for seed in range(1, arguments.rounds + 1):
            for recipe in (*recipes, theirs):
                name = recipe.name
                params, run = (their_run(arguments, recipe, peer, seed) if recipe is theirs
                               else our_run(arguments, recipe, seed))
                runs[name].append(run)
                say(f"{name:{width}} {seed:5} {precisions[name]:>10} {params:8} {run}")
    for name, mine in runs.items():
        say(f"{name:{width}}  {summary(mine, runs[PYTORCH])}")
    say("curves of round 1: seconds, steps, loss")
    for name, (first, *_) in runs.items():
        for seconds, steps, loss in first.curve:
            say(f"{name} {seconds:.2f} {steps} {loss:.4f}")


def summary(mine, theirs):
    """Median seconds of a recipe, and its ratio to PyTorch's of the same round."""
    reached = [run.reached[0] for run in mine if run.reached]
    if not reached:
        return "below it in no round"
    ratios = sorted(other.reached[0] / run.reached[0] for run, other in zip(mine, theirs)
                    if run.reached and other.reached)
    line = f"{statistics.median(reached):8.1f} s, median of {len(reached)}"
    if ratios and mine is not theirs:
        line += (f"; {statistics.median(ratios):.2f} times as fast as PyTorch"
                 f" ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return line


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
    arguments.compare(arguments)


if __name__ == "__main__":
    main()
