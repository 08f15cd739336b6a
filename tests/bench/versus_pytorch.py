#!/usr/bin/env python3
"""A training step of headcount against the same model in PyTorch.

Same shapes, batch and steps, taking turns in one run; prints medians, their ratio with its spread over
the rounds, and both processes' peak memory. PyTorch runs in the setting in which it is fastest: for each
size its threads are tried in the three ways that make sense (those of OpenMP and of OpenBLAS), as it is
and compiled. Needs PyTorch: version 2, or 1.13, which has no compiler and no fused attention.

    python3 tests/bench/versus_pytorch.py --python /usr/bin/python3 .build/release/headcount
"""

import argparse
import json
import math
import os
import random
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

CHARACTERS = "".join(chr(c) for c in range(ord("!"), ord("!") + 65))
TOY = "--preset nanogpt-cpu --layers 2 --heads 2 --dim 32 --context 32 --batch 8"
SIZES = {"nanogpt-cpu": "--preset nanogpt-cpu", "toy": TOY, "nanogpt-gpu": "--preset nanogpt-gpu"}


def make_model(config, vocabulary):
    """The language model of a run's config.json: the attentions and styles that the presets have."""
    import torch
    from torch import nn
    from torch.nn import functional

    heads, dim, context = config["heads"], config["dim"], config["context"]
    dropout, bias = config["dropout"], config["bias"] == "on"
    deviation = 0.02

    def linear(inputs, outputs):
        return nn.Linear(inputs, outputs, bias=bias)

    class LayerNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
            self.bias = nn.Parameter(torch.zeros(width)) if bias else None

        def forward(self, x):
            return functional.layer_norm(
                x, self.weight.shape, self.weight, self.bias, config["norm-epsilon"]
            )

    class RmsNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + config["norm-epsilon"])
            return x * scale * self.weight

    mask = torch.full((context, context), -math.inf).triu(1)

    def attend(q, k, v):
        """[B, T, heads, width] each; softmax(q k^T / sqrt(width)) v, causal."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if k.shape[1] != q.shape[1]:
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        if hasattr(functional, "scaled_dot_product_attention"):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        else:
            scores = (q @ k.transpose(-2, -1)) * (q.shape[-1] ** -0.5) + mask
            y = functional.dropout(functional.softmax(scores, dim=-1), dropout) @ v
        return y.transpose(1, 2).flatten(2)

    class Grouped(nn.Module):
        """MHA, GQA and MQA, with one product for q, k and v as nanoGPT has it."""

        def __init__(self):
            super().__init__()
            kind = config["attention"]
            self.groups = {"mha": heads, "mqa": 1}.get(kind) or config["kv-heads"]
            self.width = config["head-dim"]
            self.qkv = linear(dim, (heads + 2 * self.groups) * self.width)
            self.o = linear(heads * self.width, dim)

        def forward(self, x):
            parts = self.qkv(x).unflatten(-1, (heads + 2 * self.groups, self.width))
            return self.o(attend(*parts.split([heads, self.groups, self.groups], dim=2)))

    class Latent(nn.Module):
        """MLA without rotary positions, which the presets do not have."""

        def __init__(self):
            super().__init__()
            self.nope, self.rope = config["nope-dim"], config["rope-dim"]
            self.v_width, self.rank = config["v-dim"], config["kv-rank"]
            self.q = linear(dim, heads * (self.nope + self.rope))
            self.down = linear(dim, self.rank + self.rope)
            self.norm = RmsNorm(self.rank)
            self.up = linear(self.rank, heads * (self.nope + self.v_width))
            self.o = linear(heads * self.v_width, dim)

        def forward(self, x):
            q = self.q(x).unflatten(-1, (heads, self.nope + self.rope))
            latent, shared = self.down(x).split([self.rank, self.rope], dim=-1)
            up = self.up(self.norm(latent)).unflatten(-1, (heads, self.nope + self.v_width))
            k, v = up.split([self.nope, self.v_width], dim=-1)
            shared = shared.unsqueeze(2).expand(-1, -1, heads, -1)
            return self.o(attend(q, torch.cat([k, shared], dim=-1), v))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)
            self.attention = Latent() if config["attention"] == "mla" else Grouped()
            self.up, self.down = linear(dim, config["ffn-dim"]), linear(config["ffn-dim"], dim)

        def forward(self, x):
            x = x + functional.dropout(self.attention(self.norm1(x)), dropout)
            y = self.down(functional.gelu(self.up(self.norm2(x))))
            return x + functional.dropout(y, dropout)

    class LanguageModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, dim)
            self.positions = nn.Embedding(context, dim)
            self.blocks = nn.ModuleList(Block() for _ in range(config["layers"]))
            self.norm = LayerNorm(dim)
            for weight in self.parameters():
                if weight.dim() > 1:
                    nn.init.normal_(weight, 0, deviation)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
            x = functional.dropout(x, dropout)
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return LanguageModel()


def work(config, vocabulary, compiled):
    """A process with the PyTorch model: for each number on standard input, trains so many steps and
    prints their median milliseconds; at the end the peak memory."""
    import torch

    torch.manual_seed(1)
    model = make_model(config, vocabulary)
    step = torch.compile(model) if compiled else model
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    decay = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(decay, lr=1e-3, betas=(0.9, 0.99))
    context, batch = config["context"], config["batch"]
    text = torch.randint(vocabulary, (90000,))
    print(json.dumps({"params": sum(p.numel() for p in model.parameters()),
                      "version": torch.__version__}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            first = torch.randint(len(text) - context, (batch,)).tolist()
            x = torch.stack([text[i : i + context] for i in first])
            y = torch.stack([text[i + 1 : i + 1 + context] for i in first])
            optimizer.zero_grad(set_to_none=True)
            loss = step(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config["grad-clip"])
            optimizer.step()
            loss.item()
            times.append(1e3 * (time.perf_counter() - start))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"ms": statistics.median(times), "peak_mb": peak}), flush=True)


class Peer:
    """PyTorch with one setting of its threads, compiled or not, in a process of its own."""

    def __init__(self, arguments, config, setting):
        openmp, openblas, compiled = setting
        environment = dict(os.environ, OMP_NUM_THREADS=str(openmp), OPENBLAS_NUM_THREADS=str(openblas))
        self.worker = subprocess.Popen(
            [*shlex.split(arguments.python), os.path.relpath(__file__), "--worker", config]
            + ["--compiled"] * compiled,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.about = self.read()
        self.run(1)  # compiles
        self.ms = self.run(1)["ms"]

    def read(self):
        line = self.worker.stdout.readline()
        if not line:
            sys.exit("PyTorch's process ended; what it said stands above")
        return json.loads(line)

    def run(self, steps):
        print(steps, file=self.worker.stdin, flush=True)
        return self.read()

    def close(self):
        self.worker.stdin.close()
        self.worker.wait()


def settings(arguments):
    """(threads of OpenMP, threads of OpenBLAS, compiled)"""
    n = arguments.threads
    threads = sorted({(1, n), (n, 1), (1, 1)})
    with_compiler = subprocess.run(
        [*shlex.split(arguments.python), "-c", "import torch; torch.compile"],
        stderr=subprocess.DEVNULL).returncode == 0
    return [(*t, compiled) for compiled in (False, True)[: 1 + with_compiler] for t in threads]


def fastest(arguments, config):
    """The setting with the least median of a second of steps, or of one that takes longer; prints
    them all."""
    times = {}
    for setting in settings(arguments):
        peer = Peer(arguments, config, setting)
        steps = min(100, int(1000 / peer.ms))
        times[setting] = peer.run(steps)["ms"] if steps > 0 else peer.ms
        peer.close()
    for (openmp, openblas, compiled), ms in times.items():
        print(f"    PyTorch{' compiled' * compiled}, threads {openmp} of OpenMP, {openblas} of OpenBLAS: "
              f"{ms:.2f} ms", flush=True)
    return min(times, key=times.get)


class Turns:
    """The two programs for one size and one attention."""

    def __init__(self, arguments, size, attention, folder, setting):
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as file:
            file.write("".join(random.Random(1).choices(CHARACTERS, k=100_000)))
        self.command = [arguments.program, "train", *SIZES[size].split(), "--attention", attention]
        self.command += ["--data", text, "--eval-every", "0", "--checkpoint-every", "0", "--json"]
        self.command += ["--threads", str(arguments.threads), "--out", os.path.join(folder, "run")]
        self.command += ["--force", "--quiet"]
        self.ours(1)
        with open(os.path.join(folder, "run", "config.json")) as file:
            config = file.read()
        self.setting = setting or fastest(arguments, config)
        self.peer = Peer(arguments, config, self.setting)

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
    parser.add_argument("program", nargs="?", help="the program headcount")
    parser.add_argument("--size", action="append", choices=SIZES, help="default: all")
    parser.add_argument("--attention", default="mha,gqa,mqa,mla", help="separated by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=0, help="of a round; default: about 2 seconds")
    parser.add_argument("--python", default=sys.executable, metavar="CMD",
                        help="runs a Python that has PyTorch; default: the one that runs this")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(json.loads(arguments.worker), len(CHARACTERS), arguments.compiled)
    if not arguments.program:
        parser.error("say where the program headcount is")
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
