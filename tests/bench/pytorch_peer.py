#!/usr/bin/env python3
"""The models of headcount's presets in PyTorch, trained as nanoGPT trains them: what headcount is
measured against.

`Peer` starts a process with one model and gives it orders; `fastest` finds the setting in which it is
fastest. Run as a program, this file is that process; versus_pytorch.py runs it. Needs PyTorch 2.
"""

import contextlib
import json
import math
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time
import typing

CHARACTERS = "".join(chr(c) for c in range(ord("!"), ord("!") + 65))


def make_model(config, vocabulary):
    """The language model of a run's config.json: the attentions and styles that nanoGPT's presets have."""
    import torch
    from torch import nn
    from torch.nn import functional

    heads, dim, context = config["heads"], config["dim"], config["context"]
    bias = config["bias"] == "on"
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

    def attend(q, k, v, dropout):
        """[B, T, heads, width] each; softmax(q k^T / sqrt(width)) v, causal."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if k.shape[1] != q.shape[1]:
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return y.transpose(1, 2).flatten(2)

    class Module(nn.Module):
        @property
        def dropout(self):
            return config["dropout"] if self.training else 0.0

    class Grouped(Module):
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
            parts = parts.split([heads, self.groups, self.groups], dim=2)
            return self.o(attend(*parts, self.dropout))

    class Latent(Module):
        """MLA without rotary positions, which the presets do not have."""

        def __init__(self):
            super().__init__()
            self.nope, self.rope = config["nope-dim"], config["rope-dim"]
            self.v_width, self.rank = config["v-dim"], config["kv-rank"]
            self.q = linear(dim, heads * (self.nope + self.rope))
            self.kv = linear(dim, self.rank + self.rope)
            self.norm = RmsNorm(self.rank)
            self.expand = linear(self.rank, heads * (self.nope + self.v_width))
            self.o = linear(heads * self.v_width, dim)

        def forward(self, x):
            q = self.q(x).unflatten(-1, (heads, self.nope + self.rope))
            latent, shared = self.kv(x).split([self.rank, self.rope], dim=-1)
            rows = self.expand(self.norm(latent)).unflatten(-1, (heads, self.nope + self.v_width))
            k, v = rows.split([self.nope, self.v_width], dim=-1)
            shared = shared.unsqueeze(2).expand(-1, -1, heads, -1)
            return self.o(attend(q, torch.cat([k, shared], dim=-1), v, self.dropout))

    class Block(Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)
            self.attention = Latent() if config["attention"] == "mla" else Grouped()
            self.up, self.down = linear(dim, config["ffn-dim"]), linear(config["ffn-dim"], dim)

        def forward(self, x):
            x = x + functional.dropout(self.attention(self.norm1(x)), self.dropout)
            y = self.down(functional.gelu(self.up(self.norm2(x))))
            return x + functional.dropout(y, self.dropout)

    class LanguageModel(Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, dim)
            self.positions = nn.Embedding(context, dim)
            self.blocks = nn.ModuleList(Block() for _ in range(config["layers"]))
            self.norm = LayerNorm(dim)

        def initialize(self):
            """GPT-2's initial weights: what is added to the residual stream starts smaller."""
            with torch.no_grad():
                for name, weight in self.named_parameters():
                    if weight.dim() > 1:
                        last = name.endswith(("o.weight", "down.weight"))
                        scale = (2 * config["layers"]) ** -0.5 if last else 1
                        weight.normal_(0, deviation * scale)
                    else:
                        weight.fill_(1 if name.endswith("weight") else 0)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
            x = functional.dropout(x, self.dropout)
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return LanguageModel()


class Training:
    """The model with its optimizer and schedule, on a text or, without one, on random characters."""

    def __init__(self, config, text, compiled, bf16):
        import torch

        self.torch, self.config, self.bf16 = torch, config, bf16
        characters = sorted(set(text)) if text else CHARACTERS
        if text:
            ids = {c: i for i, c in enumerate(characters)}
            tokens = torch.tensor([ids[c] for c in text])
            cut = int(0.9 * len(tokens))
            self.text, self.validation = tokens[:cut], tokens[cut:]
        else:
            self.text = torch.randint(len(characters), (90000,))
        self.model = make_model(config, len(characters))
        self.compiled = torch.compile(self.model) if compiled else self.model
        self.restart(1)

    def restart(self, seed):
        self.torch.manual_seed(seed)
        self.model.initialize()
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() == 1]
        decay = [{"params": matrices, "weight_decay": self.config["weight-decay"]},
                 {"params": others, "weight_decay": 0.0}]
        self.optimizer = self.torch.optim.AdamW(
            decay, lr=self.config["lr"], betas=(self.config["beta1"], self.config["beta2"]))
        self.done = 0

    def learning_rate(self):
        """Linear warm-up, then half a cosine."""
        c = self.config
        if self.done < c["warmup"]:
            return c["lr"] * (self.done + 1) / (c["warmup"] + 1)
        progress = min(1, (self.done - c["warmup"]) / max(1, c["steps"] - c["warmup"]))
        return c["min-lr"] + 0.5 * (1 + math.cos(math.pi * progress)) * (c["lr"] - c["min-lr"])

    def step(self):
        torch, context, batch = self.torch, self.config["context"], self.config["batch"]
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        first = torch.randint(len(self.text) - context, (batch,)).tolist()
        x = torch.stack([self.text[i : i + context] for i in first])
        y = torch.stack([self.text[i + 1 : i + 1 + context] for i in first])
        self.optimizer.zero_grad(set_to_none=True)
        rounded = (torch.autocast("cpu", dtype=torch.bfloat16) if self.bf16
                   else contextlib.nullcontext())
        with rounded:
            loss = self.compiled(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config["grad-clip"])
        self.optimizer.step()
        loss.item()
        self.done += 1

    def evaluate(self):
        """Mean loss of the validation part in float32, cut into contexts that do not overlap."""
        context, total = self.config["context"], 0.0
        count = len(self.validation) - 1
        self.model.eval()
        with self.torch.no_grad():
            for begin, end in windows(count, context, 64):
                shape = (-1, min(context, end - begin))
                x, y = self.validation[begin:end], self.validation[begin + 1 : end + 1]
                total += (end - begin) * self.model(x.view(shape), y.view(shape)).item()
        self.model.train()
        return total / count


def windows(count, context, batch):
    """Ranges that cover [0, count): of `batch` contexts, of fewer whole ones, and of what is left."""
    whole = count // context * context
    borders = [*range(0, whole, batch * context), whole]
    return [*zip(borders, borders[1:]), *([(whole, count)] if whole < count else [])]


def serve():
    """Carries out the orders on standard input. The first one says what to train; a number trains so many
    steps and prints their median milliseconds, their seconds and the peak memory; `evaluate` prints the
    loss of the validation part; `restart SEED` goes back to initial weights, but keeps what is
    compiled."""
    training = Training(**json.loads(sys.stdin.readline()))
    print(json.dumps({"params": sum(p.numel() for p in training.model.parameters()),
                      "version": training.torch.__version__}), flush=True)
    for line in sys.stdin:
        order, *argument = line.split()
        answer = {}
        if order == "evaluate":
            answer["loss"] = training.evaluate()
        elif order == "restart":
            training.restart(int(argument[0]))
        else:
            seconds = []
            for _ in range(int(order)):
                start = time.perf_counter()
                training.step()
                seconds.append(time.perf_counter() - start)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            answer = {"ms": 1e3 * statistics.median(seconds), "seconds": sum(seconds), "peak_mb": peak}
        print(json.dumps(answer), flush=True)


class PeerEnded(Exception):
    pass


class Setting(typing.NamedTuple):
    """What PyTorch can be told: threads of OpenMP and of OpenBLAS, to compile, to round to bfloat16."""

    openmp: int
    openblas: int
    compiled: bool
    bf16: bool

    def __str__(self):
        return (f"PyTorch{' compiled' * self.compiled}{' bf16' * self.bf16}, "
                f"threads {self.openmp} of OpenMP, {self.openblas} of OpenBLAS")


class Peer:
    """PyTorch in one setting, in a process of its own. `python` is the command that runs a Python that
    has PyTorch, `config` what a run's config.json holds; without a text it trains on random characters."""

    def __init__(self, python, config, setting, text=None):
        environment = dict(os.environ, OMP_NUM_THREADS=str(setting.openmp),
                           OPENBLAS_NUM_THREADS=str(setting.openblas))
        self.worker = subprocess.Popen(
            [*shlex.split(python), os.path.relpath(__file__)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.about = self.order(json.dumps({"config": config, "text": text,
                                            "compiled": setting.compiled, "bf16": setting.bf16}))
        self.run(1)  # compiles
        self.ms = self.run(1)["ms"]

    def read(self):
        line = self.worker.stdout.readline()
        if not line:
            raise PeerEnded("PyTorch's process ended; what it said stands above")
        return json.loads(line)

    def order(self, text):
        print(text, file=self.worker.stdin, flush=True)
        return self.read()

    def run(self, steps):
        return self.order(steps)

    def close(self):
        self.worker.stdin.close()
        self.worker.wait()


def fastest(python, config, threads, text=None):
    """The setting with the least median of a second of steps, or of one that takes longer; prints
    them all. Compiling needs a C++ compiler; where it fails, the setting is left out."""
    times, compiles = {}, True
    for compiled, bf16 in ((False, False), (False, True), (True, False), (True, True)):
        for openmp, openblas in sorted({(1, threads), (threads, 1), (1, 1)}):
            if compiled and not compiles:
                continue
            setting = Setting(openmp, openblas, compiled, bf16)
            try:
                peer = Peer(python, config, setting, text)
            except (PeerEnded, BrokenPipeError):
                if not compiled:
                    sys.exit("PyTorch's process ended; what it said stands above")
                compiles = False
                print("    PyTorch cannot compile here; what it said stands above", flush=True)
                continue
            steps = min(100, int(1000 / peer.ms))
            times[setting] = peer.run(steps)["ms"] if steps > 0 else peer.ms
            peer.close()
            print(f"    {setting}: {times[setting]:.2f} ms", flush=True)
    return min(times, key=times.get)


if __name__ == "__main__":
    serve()
