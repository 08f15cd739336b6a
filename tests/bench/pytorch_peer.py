#!/usr/bin/env python3
"""A model of headcount's presets in PyTorch, trained as nanoGPT trains it: what headcount is
measured against. versus_pytorch.py starts a process of it for each setting. Standard input has a
JSON array a line, first the arguments of Training and then calls of its methods: a name, and
arguments. Each line gets one of JSON as an answer. Needs PyTorch 2.4.
"""
import json
import math
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


def linear(c, inputs, outputs):
    return nn.Linear(inputs, outputs, bias=c["bias"] == "on")


def layer_norm(c):
    return nn.LayerNorm(c["dim"], c["norm-epsilon"], bias=c["bias"] == "on")


def attend(q, k, v, dropout):
    """[B, T, heads, width] each; softmax(q k^T / sqrt(width)) v, causal."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
    return y.transpose(1, 2).flatten(2)


class Grouped(nn.Module):
    """MHA, GQA and MQA, with one product for q, k and v as nanoGPT has it."""

    def __init__(self, c):
        super().__init__()
        self.dropout, self.heads, self.width = c["dropout"], c["heads"], c["head-dim"]
        self.groups = {"mha": self.heads, "mqa": 1}.get(c["attention"]) or c["kv-heads"]
        self.qkv = linear(c, c["dim"], (self.heads + 2 * self.groups) * self.width)
        self.o = linear(c, self.heads * self.width, c["dim"])

    def forward(self, x):
        rows = self.qkv(x).unflatten(-1, (self.heads + 2 * self.groups, self.width))
        q, k, v = rows.split([self.heads, self.groups, self.groups], dim=2)
        return self.o(attend(q, k, v, self.dropout if self.training else 0.0))


class Latent(nn.Module):
    """MLA without rotary positions, which the presets do not have."""

    def __init__(self, c):
        super().__init__()
        self.dropout, self.heads, self.rank = c["dropout"], c["heads"], c["kv-rank"]
        self.nope, self.rope, self.v_width = c["nope-dim"], c["rope-dim"], c["v-dim"]
        self.q = linear(c, c["dim"], self.heads * (self.nope + self.rope))
        self.kv = linear(c, c["dim"], self.rank + self.rope)
        self.norm = nn.RMSNorm(self.rank, c["norm-epsilon"])
        self.expand = linear(c, self.rank, self.heads * (self.nope + self.v_width))
        self.o = linear(c, self.heads * self.v_width, c["dim"])

    def forward(self, x):
        q = self.q(x).unflatten(-1, (self.heads, self.nope + self.rope))
        latent, shared = self.kv(x).split([self.rank, self.rope], dim=-1)
        rows = self.expand(self.norm(latent)).unflatten(-1, (self.heads, self.nope + self.v_width))
        k, v = rows.split([self.nope, self.v_width], dim=-1)
        k = torch.cat([k, shared.unsqueeze(2).expand(-1, -1, self.heads, -1)], dim=-1)
        return self.o(attend(q, k, v, self.dropout if self.training else 0.0))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = layer_norm(c), layer_norm(c)
        self.attention = Latent(c) if c["attention"] == "mla" else Grouped(c)
        self.up, self.down = (linear(c, c["dim"], c["ffn-dim"]), linear(c, c["ffn-dim"], c["dim"]))
        self.drop = nn.Dropout(c["dropout"])

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.down(functional.gelu(self.up(self.norm2(x)))))


class LanguageModel(nn.Module):
    """The model of a run's config.json: the attentions and styles that nanoGPT's presets have."""

    def __init__(self, c, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, c["dim"])
        self.positions = nn.Embedding(c["context"], c["dim"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm, self.drop = layer_norm(c), nn.Dropout(c["dropout"])

    def initialize(self):
        """GPT-2's initial weights: what is added to the residual stream starts smaller."""
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if weight.dim() > 1:
                    last = name.endswith(("o.weight", "down.weight"))
                    weight.normal_(0, 0.02 * ((2 * len(self.blocks)) ** -0.5 if last else 1))
                else:
                    weight.fill_(1 if name.endswith("weight") else 0)

    def forward(self, tokens, targets):
        x = self.drop(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Training:
    """The model with its optimizer and schedule, on a text, whose last tenth is for validation."""

    def __init__(self, config, text, compiled, bf16):
        self.config, self.bf16 = config, bf16
        ids = {c: i for i, c in enumerate(sorted(set(text)))}
        tokens = torch.tensor([ids[c] for c in text])
        self.text, self.validation = tokens.tensor_split([int(0.9 * len(tokens))])
        self.model = LanguageModel(config, len(ids))
        self.compiled = torch.compile(self.model) if compiled else self.model
        self.restart(1)

    def about(self):
        return {"params": sum(p.numel() for p in self.model.parameters()),
                "version": torch.__version__}

    def restart(self, seed):
        """Goes back to initial weights, but keeps what is compiled."""
        torch.manual_seed(seed)
        self.model.initialize()
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() == 1]
        decay = [{"params": matrices, "weight_decay": self.config["weight-decay"]},
                 {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
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
        context, batch = self.config["context"], self.config["batch"]
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        first = torch.randint(len(self.text) - context, (batch,)).tolist()
        x = torch.stack([self.text[i : i + context] for i in first])
        y = torch.stack([self.text[i + 1 : i + 1 + context] for i in first])
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.compiled(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config["grad-clip"])
        self.optimizer.step()
        loss.item()
        self.done += 1

    def run(self, steps):
        """Median milliseconds of so many steps, their seconds, and the peak memory so far."""
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            seconds.append(time.perf_counter() - start)
        return {"ms": 1e3 * statistics.median(seconds), "seconds": sum(seconds),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    def evaluate(self):
        """Mean loss of the validation part in float32, cut into contexts that do not overlap."""
        context, total = self.config["context"], 0.0
        count = len(self.validation) - 1
        whole = count // context * context
        borders = [*range(0, whole, 64 * context), whole, count]
        self.model.eval()
        with torch.no_grad():
            for begin, end in zip(borders, borders[1:]):
                if begin < end:
                    shape = (-1, min(context, end - begin))
                    x, y = self.validation[begin:end], self.validation[begin + 1 : end + 1]
                    total += (end - begin) * self.model(x.view(shape), y.view(shape)).item()
        self.model.train()
        return total / count


training = Training(*json.loads(sys.stdin.readline()))
print(json.dumps(training.about()), flush=True)
for line in sys.stdin:
    method, *arguments = json.loads(line)
    print(json.dumps(getattr(training, method)(*arguments)), flush=True)
