"""Mutation run: for each mutant, one place of a source file is changed, and the suites that should
notice run with it. Prints which survive; exits with 1 if one does that MUTANTS does not explain,
or if a source no longer has the text that a mutant changes.

    python3 tests/mutants.py [PART OF A FILE'S NAME OR OF A MUTANT'S TEXT]...

Builds the test programs concerned in .build/release (BUILD names another folder) and no others. The
sources stay as they are: a changed copy is compiled alone and linked before the libraries, and so
is an unchanged copy, with which the suites must pass."""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / ".build/release")).resolve()
# A line for each source: its name, a test program and the suites that should notice. Below it each
# mutant: old text => new text, and a reason if it changes nothing that a caller can see.
MUTANTS = r"""
train/show/statistics.cpp train Median.*:EstimateOfSeeds.*:StudentT.*
    ssize(values) / 2; => ssize(values) / 2 - 1;
    mean) > * => mean) >= *
    (squares / (n - 1)) => (squares / n)
    b(0.5); => b(0.51);
train/compare/verdict.cpp train SeedRange*.*:Verdict*.*:*Seeds*.*:*Question*.*:*Tolerance*
    range.last <= range.first => range.last < range.first
    run.seed) <= question => run.seed) < question
train/compare/sequential_testing.cpp train Verdict*.*
    < *tolerance) => <= *tolerance)
    > *tolerance ? => >= *tolerance ?
train/compare/rounds.cpp train Rounds.*
    seeds_[i] == last_ => seeds_[i] + 1 == last_
    than.failures.size()) >= first => than.failures.size()) > first
data/batches.cpp data *Windows.*
    if (tokens > context) => if (tokens >= context)
    min(batch.length, end - start) => min(batch.length, end - start + 1)
    position = start + 1 + i => position = start + i
    lower_bound(marks => upper_bound(marks
    start < tokens - 1; => start < tokens;
    + context <= targets => + context < targets
models/sampling.cpp models SampledText.*:SampleToken.*
    context + 1) / 2 => context) / 2
    reached < enough => reached <= enough
    options.min_p * list.front() => options.min_p * list.back()
    c.probability < threshold => c.probability <= threshold
    context && !options => context - 1 && !options
    - start_ <= context => - start_ < context
    prompt_ + i, b) => prompt_ + i)
train/optimizer.cpp train LearningRateSchedule.*:ClipScale.*
    (warmup + 1) => (warmup)
    if (step < warmup) => if (step <= warmup) because the ramp ends where every decay begins
    max(warmup, steps - steps / 5) => max(warmup, steps - steps / 4)
    (norm + 1e-6) => norm
train/evaluation.cpp train EvaluationOfAText.*
    bit_width(position / 32) => bit_width(position / 33)
    bit_width(distance) - 1) => bit_width(distance - 1))
    + i % length + 1; => + i % length;
autograd/ops/picking.cpp in_double ComposedPicking.*
    end_row(t) - sizes.window) => end_row(t) - sizes.window + 1)
    + t + 1) / => + t) /
autograd/ops/norms.cpp gradcheck *GradientOfOp*/layer_norm
    (array(g, width) - mean_g - array => (array(g, width) - array
autograd/ops/softmax.cpp gradcheck *GradientOfOp*/softmax:*GradientOfOp*/cross_entropy
    (d - (d * out).sum()) => d
    (none ? 0 : softmax.inverse * weight) => (softmax.inverse * weight)
autograd/ops/activations.cpp gradcheck *GradientOfOp*/silu_gate
    d * lanes<n>(xv + i) * slope(g, s) => d * slope(g, s)
autograd/ops/convolution.cpp gradcheck *GradientOfOp*/causal_convolution
    max<Index>(0, kernel - 1 - t) => max<Index>(1, kernel - 1 - t)
autograd/ops/pooling.cpp gradcheck *GradientOfOp*/pool_tokens
    sink && sink.write == Write::assign => false
autograd/attention/attention_kernel.cpp in_double ComposedAttention.*
    p.masks(b, j + r) => p.masks(b, j)
    all = p.cap * (all / p.cap) => all = (all / p.cap)
    own - p.gate_sums[p.gate(b, tile.begin + r, => own - p.gate_sums[p.gate(b, tile.begin,
    total()[lane] = 1; => total()[lane] = 2;
autograd/cache/row_cache.cpp autograd RecentRows.*
    left >= first_token_; => left > first_token_;
autograd/cache/cache_format.cpp autograd CacheTypes.*
    == above && code % 2 == 1 => == above && code % 2 == 0
data/corpus.cpp data CorpusFromFile.*:*BuiltInCorpus*
    (1.0 - options.validation_fraction) => options.validation_fraction
    cut <= 0 || => cut < 0 ||
    lower_bound(corpus.train.starts, characters) => upper_bound(corpus.train.starts, characters)
models/cost/cost.cpp models CostTable.*
    cache.require_fit(rounding); => ;
models/checkpoint/safetensors.cpp models *Safetensors*
    wanted > bytes.size() => wanted >= bytes.size()
    == end - begin, => >= end - begin,
models/checkpoint/contents.cpp models CheckpointFolder.*
    tensor.shape != expected => tensor.shape.size() != expected.size()
nn/attention/memory.cpp models ConfigCache.*
    return options.window > 0 ? std::min(options => return options.window > 0 ? std::min(1 + options
"""


def make_value(program, file, name):
    text = (BUILD / f"tests/CMakeFiles/{program}.dir/{file}").read_text()
    return shlex.split(re.search(rf"^{name}(.*)", text, re.M)[1])


def failure(name, source, program, tests):
    """Why the tests fail with `source` linked before the libraries; empty if they pass."""
    changed = BUILD / "mutants" / f"{name}.cpp"
    changed.parent.mkdir(exist_ok=True)
    changed.write_text(source)
    flags = [flag for variable in ["CXX_DEFINES = ", "CXX_INCLUDES = ", "CXX_FLAGS = "]
             for flag in make_value(program, "flags.make", variable)]
    link = make_value(program, "link.txt", "")
    at = link.index("-o")
    binary = BUILD / "mutants" / name
    compile_it = [link[0], *flags, "-w", f"-I{ROOT}", "-I/usr/include/eigen3", "-c", changed, "-o",
                  f"{changed}.o"]
    link_it = [*link[:at], f"{changed}.o", "-Wl,--allow-multiple-definition", "-o", binary,
               *link[at + 2:]]
    run_it = [binary, f"--gtest_filter={tests}", "--gtest_brief=1"]
    for command in [compile_it, link_it, run_it]:
        done = subprocess.run(command, cwd=BUILD / "tests", capture_output=True, text=True,
                              errors="replace")
        if command is not run_it and done.returncode:
            raise RuntimeError(done.stderr)
    for file in [changed, f"{changed}.o", binary]:
        os.unlink(file)
    if re.search(r"\] 0 tests from", done.stdout):
        raise RuntimeError(f"no test of {program} is called {tests}")
    return done.stdout + done.stderr if done.returncode else ""


def run(number, file, program, tests, old, new, reason):
    """A line to print, and whether the mutant survives without a reason or cannot be tried."""
    source = (ROOT / file).read_text()
    if source.count(old) != 1:
        return f"WRONG     {file}: {old!r} stands there {source.count(old)} times", True
    try:
        killed = failure(f"mutant_{number}", source.replace(old, new), program, tests)
    except RuntimeError as error:
        return f"WRONG     {file}: {new!r}: {error}", True
    if old == new:
        return f"unchanged {file} {killed}", bool(killed)
    if killed:
        return f"killed    {file}: {new}", False
    return f"SURVIVES  {file}: {new}  {reason}", not reason


def chosen(parts):
    """Arguments of `run` for mutants with one of `parts` in their file's name or text, after an
    unchanged copy of each of their sources."""
    for line in MUTANTS.strip().splitlines():
        if not line.startswith(" "):
            source, is_first = line.split(), True
            continue
        old, new, reason = re.fullmatch(" +(.+) => (.+?)(?: because (.+))?", line).groups("")
        if not parts or any(part in source[0] or part in old for part in parts):
            if is_first:
                text = (ROOT / source[0]).read_text()
                yield *source, text, text, ""
            yield *source, old, new, reason
            is_first = False


mutants = list(chosen(sys.argv[1:]))
if not mutants:
    sys.exit("no mutant is called so")
jobs = int(os.environ.get("JOBS", len(os.sched_getaffinity(0))))
programs = sorted({program for _, program, *_ in mutants})
subprocess.run(["cmake", "--build", BUILD, "--parallel", str(jobs), "--target", *programs],
               check=True, stdout=subprocess.DEVNULL)
wrong = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for text, is_wrong in pool.map(lambda i: run(i, *mutants[i]), range(len(mutants))):
        print(text, flush=True)
        wrong += is_wrong
sys.exit(f"{wrong} wrong" if wrong else 0)
