"""The path from one training step to the matrix product is short enough to read in an evening.

PATH has the files, in the order of the calls, with attention in its plain form, to which tests hold
the fused op that training runs. BESIDE has what they include besides, with the reason why a reader
may pass it by: a file that one of PATH includes must be in one of the two. README.md quotes the
number of lines. Prints the files with their lines. Usage: python3 tests/reading_path.py [FOLDER]
"""
import pathlib
import re
import sys

MOST_LINES = 1600
PATH = """
models/examples/one_step.cpp
models/language_model.h models/language_model.cpp
nn/layers.h nn/layers.cpp
nn/attention/grouped.cpp nn/attention/attention.h nn/attention/attention.cpp nn/attention/memory.h
autograd/ops/plain_attention.cpp autograd/ops/linear.cpp
autograd/tape.h autograd/tape.cpp
autograd/products/products.h
""".split()
BESIDE = {
    "data/vocabulary.h": "letters to numbers and back",
    "models/sampling.h": "decoding, after the step",
    "models/plan.h": "settings with their values",
    "nn/attention/features.h": "the scale of the scores; gates, norms and others, which are off by default",
    "nn/convolution.h": "short convolutions, likewise",
    "autograd/ops.h": "one line for each op: what it computes",
    "autograd/ops/row_sums.h": "a loop",
    "autograd/ops/support.h": "checks of shapes",
    "autograd/operands.h": "operands in bfloat16, another precision",
    "autograd/parameters.h": "weights and their gradients, a buffer each",
    "autograd/arena.h": "memory that lives as long as a step",
    "autograd/random.h": "random numbers of dropout",
    "autograd/parallel.h": "loops on several threads",
    "autograd/shape.h": "extents of a tensor",
    "autograd/op.h": "names of the ops",
    "autograd/no_target.h": "the target that does not count",
    "autograd/base/count.h": "numbers that do not overflow",
    "autograd/base/error.h": "exceptions",
    "autograd/base/real.h": "float",
}

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
texts = {name: (root / name).read_text() for name in PATH}
faults = []
for name, text in texts.items():
    for included in re.findall(r'#include "(.*)"', text):
        if included not in PATH and included not in BESIDE:
            faults.append(f"{name} includes {included}, which is neither in PATH nor BESIDE")
includes = {name for text in texts.values() for name in re.findall(r'#include "(.*)"', text)}
faults += [f"nothing on the path includes {name}" for name in BESIDE if name not in includes]
lines = sum(text.count("\n") for text in texts.values())
if lines > MOST_LINES:
    faults.append(f"the path has {lines} lines, more than {MOST_LINES}")
readme = (root / "README.md").read_text()
quoted = re.search(r"attention in its plain form, is ([\d,]+) lines", readme)
if quoted is None or int(quoted[1].replace(",", "")) != lines:
    faults.append(f"README.md must say: attention in its plain form, is {lines:,} lines")
for name, text in texts.items():
    print(f"{text.count(chr(10)):5}  {name}")
print("\n".join(faults) or f"{lines:5}  lines in {len(PATH)} files")
sys.exit(bool(faults))
