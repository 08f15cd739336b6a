"""Compiles each file of tests/ in a compile_commands.json by itself, without writing an object: a unity
build lends includes that a plain `cmake -S . -B b` misses. A file that several targets compile is tried
once. Precompiled headers save three quarters of the time; the library is compiled without them and
without unity builds for the thread sanitizer."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def errors_of(entry):
    words = shlex.split(entry["command"])
    output = words.index("-o")
    del words[output:output + 2]
    words.remove("-c")
    result = subprocess.run(words + ["-fsyntax-only"], cwd=entry["directory"],
                            capture_output=True, text=True, errors="replace")
    return result.stderr if result.returncode else ""


with open(sys.argv[1]) as file:
    entries = {entry["file"]: entry for entry in json.load(file)
               if "/tests/" in entry["file"] and "cmake_pch" not in entry["file"]}
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    failed = [errors for errors in pool.map(errors_of, entries.values()) if errors]
if not entries or failed:
    sys.exit("".join(failed) or "no files to compile")
print(f"{len(entries)} files compile alone")
