"""Mutation run: for each mutant, one place of a source file is changed, and the suites that should
notice run with it. Prints which survive; exits with 1 if one does that MUTANTS does not explain.

    python3 tests/mutants.py [BUILD [PART OF A FILE'S NAME]]

BUILD is a folder with the test programs, .build/release unless given. The sources stay as they
are: a changed copy is compiled alone and linked before the libraries."""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# File, old text, new text, test program, filter; then a reason, if the mutant changes nothing.
MUTANTS = [
    ("train/statistics.cpp", "ssize(values) / 2;", "ssize(values) / 2 - 1;", "train", "Median.*"),
    ("train/statistics.cpp", "mean) > *", "mean) >= *", "train", "EstimateOfSeeds.*"),
    ("train/statistics.cpp", "(squares / (n - 1))", "(squares / n)", "train", "EstimateOfSeeds.*"),
    ("train/statistics.cpp", "b(0.5);", "b(0.51);", "train", "StudentT.*"),
    ("train/compare/verdict.cpp", "< *tolerance)", "<= *tolerance)", "train", "Verdict*.*"),
    ("train/compare/verdict.cpp", "> *tolerance ?", ">= *tolerance ?", "train", "Verdict*.*"),
    ("train/compare/verdict.cpp", "range.last <= range.first", "range.last < range.first", "train",
     "SeedRange*.*:Verdict*.*:*Seeds*.*:*Question*.*"),
    ("train/compare/verdict.cpp", "<= question.seeds.first)", "< question.seeds.first)", "train",
     "Verdict*.*:Tolerance*.*:Results*.*:*Tolerance*"),
    ("train/compare/needed_runs.cpp", "if (costs.size() >= first)", "if (costs.size() > first)",
     "train", "NeededRuns.*"),
    ("train/compare/needed_runs.cpp", "failed_references) >= first", "failed_references) > first",
     "train", "NeededRuns.*"),
    ("data/batches.cpp", "if (tokens > context)", "if (tokens >= context)", "data", "*Windows.*"),
    ("data/batches.cpp", "min(batch.length, end - start)", "min(batch.length, end - start + 1)",
     "data", "EvaluationWindows.*"),
    ("data/batches.cpp", "position = start + 1 + i", "position = start + i", "data", "*Windows.*"),
    ("data/batches.cpp", "lower_bound(marks", "upper_bound(marks", "data", "SampleWindows.*"),
    ("data/batches.cpp", "start < tokens - 1;", "start < tokens;", "data", "EvaluationWindows.*"),
    ("data/batches.cpp", "+ context <= targets", "+ context < targets", "data",
     "EvaluationWindows.*"),
    ("models/sampling.cpp", "context + 1) / 2", "context) / 2", "models", "SampledText.*"),
    ("models/sampling.cpp", "reached < enough", "reached <= enough", "models", "SampleToken.*"),
    ("models/sampling.cpp", "c.weight < threshold", "c.weight <= threshold", "models",
     "SampleToken.*"),
    ("models/sampling.cpp", "context && !options", "context - 1 && !options", "models",
     "SampledText.*"),
    ("models/sampling.cpp", "start_ > static", "start_ >= static", "models", "SampledText.*"),
    ("models/sampling.cpp", "position, static_cast<Index>(b))", "position)", "models",
     "SampledText.*"),
    ("train/optimizer.cpp", "(warmup + 1)", "(warmup)", "train", "LearningRateSchedule.*"),
    ("train/optimizer.cpp", "if (step < warmup)", "if (step <= warmup)", "train",
     "LearningRateSchedule.*", "the ramp ends at the peak, where every decay begins"),
    ("train/optimizer.cpp", "max(warmup, steps - steps / 5)", "max(warmup, steps - steps / 4)",
     "train", "LearningRateSchedule.*"),
    ("train/optimizer.cpp", "(norm + 1e-6)", "norm", "train", "ClipScale.*"),
    ("train/evaluation.cpp", "bit_width(position / 32)", "bit_width(position / 33)", "train",
     "LossByPosition.*"),
    ("train/evaluation.cpp", "bit_width(distance) - 1)", "bit_width(distance - 1))", "train",
     "EvaluationOfAText.*"),
    ("train/evaluation.cpp", "+ i % length + 1;", "+ i % length;", "train", "EvaluationOfAText.*"),
    ("autograd/ops/picking.cpp", "seen(i) - options.window)", "seen(i) - options.window + 1)",
     "autograd", "*Pick*.*"),
    ("autograd/ops/picking.cpp", "first_position + i + 1) /", "first_position + i) /", "autograd",
     "*Pick*.*"),
    ("nn/attention/memory.cpp", "return options.window > 0 ? std::min(options.window,",
     "return options.window > 0 ? std::min(options.window + 1,", "models",
     "Every/DecodingInFloat.AllocatesWhat*"),
]


def run(mutant):
    file, old, new, program, tests, *reason = mutant
    source = (ROOT / file).read_text()
    if source.count(old) != 1:
        return f"{file}: {old!r} stands there {source.count(old)} times", True
    name = re.sub(r"\W+", "_", file) + f"_{MUTANTS.index(mutant)}"
    changed = BUILD / "mutants" / f"{name}.cpp"
    changed.parent.mkdir(exist_ok=True)
    changed.write_text(source.replace(old, new))
    flags = (BUILD / f"tests/CMakeFiles/{program}.dir/flags.make").read_text()
    definitions = shlex.split(re.search(r"CXX_DEFINES = (.*)", flags)[1])
    compiler = shlex.split((BUILD / f"tests/CMakeFiles/{program}.dir/link.txt").read_text())
    run_in = dict(cwd=BUILD / "tests", capture_output=True, text=True)
    compiled = subprocess.run(
        [compiler[0], "-std=c++20", "-O0", "-w", "-march=native", "-fopenmp", "-fno-math-errno",
         "-fno-trapping-math", *definitions, f"-I{ROOT}", "-I/usr/include/eigen3", "-c", changed,
         "-o", f"{changed}.o"], **run_in)
    if compiled.returncode:
        return f"{file}: {new!r} does not compile\n{compiled.stderr}", True
    at = compiler.index("-o")
    binary = BUILD / "mutants" / name
    linked = subprocess.run(
        [*compiler[:at], f"{changed}.o", "-Wl,--allow-multiple-definition", "-o", binary,
         *compiler[at + 2:]], **run_in)
    if linked.returncode:
        return f"{file}: {new!r} does not link\n{linked.stderr}", True
    tested = subprocess.run([binary, f"--gtest_filter={tests}", "--gtest_brief=1"], **run_in)
    binary.unlink()
    if " 0 tests from" in tested.stdout:
        return f"{file}: no test of {program} is called {tests}", True
    if tested.returncode:
        return f"killed    {file}: {new}", False
    return f"SURVIVES  {file}: {new}  {' '.join(reason)}", not reason


BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".build/release").resolve()
chosen = [m for m in MUTANTS if len(sys.argv) < 3 or sys.argv[2] in m[0]]
wrong = False
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for text, is_wrong in pool.map(run, chosen):
        print(text, flush=True)
        wrong = wrong or is_wrong
sys.exit(wrong)
