"""Compiles each file in a compile_commands.json by itself, without writing an object: a unity build lends
includes that a plain `cmake -S . -B b` misses, and warns of no shadowed name. A file that several targets
compile is tried once. Precompiled headers that are not built are read: with them, a file takes a quarter
of the time."""
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
    if "-include-pch" in words:
        header = words.index("-include-pch")
        if not os.path.exists(words[header + 2]):
            del words[header - 1:header + 3]
    result = subprocess.run(words + ["-fsyntax-only"], cwd=entry["directory"],
                            capture_output=True, text=True, errors="replace")
    return result.stderr if result.returncode else ""


with open(sys.argv[1]) as file:
    entries = {entry["file"]: entry for entry in json.load(file)
               if "cmake_pch" not in entry["file"]}
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    failed = [errors for errors in pool.map(errors_of, entries.values()) if errors]
if not entries or failed:
    sys.exit("".join(failed) or "no files to compile")
print(f"{len(entries)} files compile alone")
