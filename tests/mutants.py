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
        ("< *tolerance)", "<= *tolerance)", "Verdict*.*"),
        ("> *tolerance ?", ">= *tolerance ?", "Verdict*.*"),
        ("range.last <= range.first", "range.last < range.first",
         "SeedRange*.*:Verdict*.*:*Seeds*.*:*Question*.*"),
        ("<= question.seeds.first)", "< question.seeds.first)",
         "Verdict*.*:Tolerance*.*:Results*.*:*Tolerance*"),
    ],
    ("train/compare/needed_runs.cpp", "train"): [
        ("if (costs.size() >= first)", "if (costs.size() > first)", "NeededRuns.*"),
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
        ("c.weight < threshold", "c.weight <= threshold", "SampleToken.*"),
        ("context && !options", "context - 1 && !options", "SampledText.*"),
        ("start_ > static", "start_ >= static", "SampledText.*"),
        ("position, static_cast<Index>(b))", "position)", "SampledText.*"),
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
        ("bit_width(position / 32)", "bit_width(position / 33)", "LossByPosition.*"),
        ("bit_width(distance) - 1)", "bit_width(distance - 1))", "EvaluationOfAText.*"),
        ("+ i % length + 1;", "+ i % length;", "EvaluationOfAText.*"),
    ],
    ("autograd/ops/picking.cpp", "autograd"): [
        ("seen(i) - options.window)", "seen(i) - options.window + 1)", "*Pick*.*"),
        ("first_position + i + 1) /", "first_position + i) /", "*Pick*.*"),
    ],
    ("nn/attention/memory.cpp", "models"): [
        ("return options.window > 0 ? std::min(options.window,",
         "return options.window > 0 ? std::min(options.window + 1,",
         "Every/DecodingInFloat.AllocatesWhat*"),
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
        done = subprocess.run(command, cwd=BUILD / "tests", capture_output=True, text=True)
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
