"""Mutation run: for each mutant, one place of a source file is changed, and the suites that should
notice run with it. Prints which survive; exits with 1 if one does that MUTANTS does not explain,
or if a source no longer has the text that a mutant changes.

    python3 tests/mutants.py [PART OF A FILE'S NAME OR OF A MUTANT'S TEXT]...

Builds the test programs concerned in .build/release (BUILD names another folder) and no others. The
sources stay as they are: a changed copy is compiled alone and linked before the libraries, and so is
an unchanged copy, with which the suites must pass."""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / ".build/release")).resolve()
# File and test program; then for each mutant old text, new text, filter, and a reason if the mutant
# changes nothing that a caller can see.
MUTANTS = {
    ("train/statistics.cpp", "train"): [
        ("ssize(values) / 2;", "ssize(values) / 2 - 1;", "Median.*"),
        ("mean) > *", "mean) >= *", "EstimateOfSeeds.*"),
        ("(squares / (n - 1))", "(squares / n)", "EstimateOfSeeds.*"),
        ("b(0.5);", "b(0.51);", "StudentT.*"),
    ],
    ("train/compare/verdict.cpp", "train"): [
        ("range.last <= range.first", "range.last < range.first",
         "SeedRange*.*:Verdict*.*:*Seeds*.*:*Question*.*"),
        ("run.seed) <= question", "run.seed) < question",
         "Verdict*.*:Tolerance*.*:*Tolerance*"),
    ],
    ("train/compare/sequential_testing.cpp", "train"): [
        ("< *tolerance)", "<= *tolerance)", "Verdict*.*"),
        ("> *tolerance ?", ">= *tolerance ?", "Verdict*.*"),
    ],
    ("train/compare/needed_runs.cpp", "train"): [
        ("settled && costs.size() >= first", "settled && costs.size() > first", "NeededRuns.*"),
        ("failed_references) >= first", "failed_references) > first", "NeededRuns.*"),
    ],
    ("data/batches.cpp", "data"): [
        ("if (tokens > context)", "if (tokens >= context)", "*Windows.*"),
        ("min(batch.length, end - start)", "min(batch.length, end - start + 1)",
         "EvaluationWindows.*"),
        ("position = start + 1 + i", "position = start + i", "*Windows.*"),
        ("lower_bound(marks", "upper_bound(marks", "SampleWindows.*"),
        ("start < tokens - 1;", "start < tokens;", "EvaluationWindows.*"),
        ("+ context <= targets", "+ context < targets", "EvaluationWindows.*"),
    ],
    ("models/sampling.cpp", "models"): [
        ("context + 1) / 2", "context) / 2", "SampledText.*"),
        ("reached < enough", "reached <= enough", "SampleToken.*"),
        ("options.min_p * list.front()", "options.min_p * list.back()", "SampleToken.*"),
        ("c.probability < threshold", "c.probability <= threshold", "SampleToken.*"),
        ("context && !options", "context - 1 && !options", "SampledText.*"),
        ("- start_ <= context", "- start_ < context", "SampledText.*"),
        ("prompt_ + i, b)", "prompt_ + i)", "SampledText.*"),
    ],
    ("train/optimizer.cpp", "train"): [
        ("(warmup + 1)", "(warmup)", "LearningRateSchedule.*"),
        ("if (step < warmup)", "if (step <= warmup)", "LearningRateSchedule.*",
         "the ramp ends at the peak, where every decay begins"),
        ("max(warmup, steps - steps / 5)", "max(warmup, steps - steps / 4)",
         "LearningRateSchedule.*"),
        ("(norm + 1e-6)", "norm", "ClipScale.*"),
    ],
    ("train/evaluation.cpp", "train"): [
        ("bit_width(position / 32)", "bit_width(position / 33)", "EvaluationOfAText.*"),
        ("bit_width(distance) - 1)", "bit_width(distance - 1))", "EvaluationOfAText.*"),
        ("+ i % length + 1;", "+ i % length;", "EvaluationOfAText.*"),
    ],
    ("autograd/ops/picking.cpp", "in_double"): [
        ("end_row(t) - sizes.window)", "end_row(t) - sizes.window + 1)", "ComposedPicking.*"),
        ("+ t + 1) /", "+ t) /", "ComposedPicking.*"),
    ],
    ("autograd/ops/norms.cpp", "gradcheck"): [
        ("(array(g, width) - mean_g - array(h, width) * mean_gh)",
         "(array(g, width) - array(h, width) * mean_gh)",
         "*GradientOfOp*/layer_norm"),
    ],
    ("autograd/ops/softmax.cpp", "gradcheck"): [
        ("(d - (d * out).sum())", "d", "*GradientOfOp*/softmax"),
        ("(none ? 0 : softmax.inverse * weight)", "(softmax.inverse * weight)",
         "*GradientOfOp*/cross_entropy"),
    ],
    ("autograd/ops/activations.cpp", "gradcheck"): [
        ("d * lanes<n>(xv + i) * slope(g, s)", "d * slope(g, s)", "*GradientOfOp*/silu_gate"),
    ],
    ("autograd/ops/convolution.cpp", "gradcheck"): [
        ("max<Index>(0, kernel - 1 - t)", "max<Index>(1, kernel - 1 - t)",
         "*GradientOfOp*/causal_convolution"),
    ],
    ("autograd/ops/pooling.cpp", "gradcheck"): [
        ("sink && sink.write == Write::assign", "false", "*GradientOfOp*/pool_tokens"),
    ],
    ("autograd/ops/attention_kernel.cpp", "in_double"): [
        ("p.masks(b, j + r)", "p.masks(b, j)", "ComposedAttention.*"),
        ("all = p.cap * (all / p.cap)", "all = (all / p.cap)", "ComposedAttention.*"),
        ("own - p.gate_sums[p.gate(b, tile.begin + r,", "own - p.gate_sums[p.gate(b, tile.begin,",
         "ComposedAttention.*"),
        ("total()[lane] = 1;", "total()[lane] = 2;", "ComposedAttention.*"),
    ],
    ("autograd/row_cache.cpp", "autograd"): [
        ("left >= first_token_;", "left > first_token_;", "RecentRows.*"),
    ],
    ("autograd/cache_format.cpp", "autograd"): [
        ("== above && code % 2 == 1", "== above && code % 2 == 0", "CacheTypes.*"),
    ],
    ("data/corpus.cpp", "data"): [
        ("(1.0 - options.validation_fraction)", "options.validation_fraction", "CorpusFromFile.*"),
        ("cut <= 0 ||", "cut < 0 ||", "CorpusFromFile.*"),
        ("lower_bound(corpus.train.starts, characters)", "upper_bound(corpus.train.starts, characters)",
         "*BuiltInCorpus*"),
    ],
    ("models/cost.cpp", "models"): [
        ("  cache.require_fit(rounding);\n", "", "CostTable.*"),
    ],
    ("models/checkpoint/safetensors.cpp", "models"): [
        ("wanted > bytes.size()", "wanted >= bytes.size()", "*Safetensors*"),
        ("== end - begin,", ">= end - begin,", "*Safetensors*"),
    ],
    ("models/checkpoint/contents.cpp", "models"): [
        ("tensor.shape != expected", "tensor.shape.size() != expected.size()",
         "CheckpointFolder.*"),
    ],
    ("nn/attention/memory.cpp", "models"): [
        ("return options.window > 0 ? std::min(options.window,",
         "return options.window > 0 ? std::min(options.window + 1,",
         "KnownModels.HaveThePublishedSizes"),
    ],
}


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


def run(number, file, program, old, new, tests, *reason):
    """A line to print, and whether the mutant is wrong: survives without a reason or cannot be tried."""
    source = (ROOT / file).read_text()
    if source.count(old) != 1:
        return f"WRONG     {file}: {old!r} stands there {source.count(old)} times", True
    try:
        killed = failure(f"mutant_{number}", source.replace(old, new), program, tests)
        if old == new:
            return f"unchanged {file} {killed}", bool(killed)
        if killed:
            return f"killed    {file}: {new}", False
        return f"SURVIVES  {file}: {new}  {' '.join(reason)}", not reason
    except RuntimeError as error:
        return f"WRONG     {file}: {new!r}: {error}", True


chosen = []
for (file, program), mutants in MUTANTS.items():
    mutants = [m for m in mutants
               if not sys.argv[1:] or any(part in file or part in m[0] for part in sys.argv[1:])]
    if mutants:
        chosen += [(file, program, *m) for m in mutants]
        filters = sorted({m[2] for m in mutants})
        first = (ROOT / file).read_text()  # the unchanged copy: all of its text for the same text
        chosen.append((file, program, first, first, ":".join(filters)))
if not chosen:
    sys.exit("no mutant is called so")
jobs = len(os.sched_getaffinity(0)) if "JOBS" not in os.environ else int(os.environ["JOBS"])
programs = sorted({program for _, program, *_ in chosen})
subprocess.run(["cmake", "--build", BUILD, "--parallel", str(jobs), "--target", *programs],
               check=True, stdout=subprocess.DEVNULL)
wrong = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for text, is_wrong in pool.map(lambda i: run(i, *chosen[i]), range(len(chosen))):
        print(text, flush=True)
        wrong += is_wrong
sys.exit(f"{wrong} wrong" if wrong else 0)
