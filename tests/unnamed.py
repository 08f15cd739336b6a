"""Lists the sources without a file of tests of their name: tests/FOLDER/NAME_test.cpp for FOLDER/NAME.cpp.
A test file says in its first comment what else it is of; scripts in tests/page test the page's engine."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["autograd", "nn", "data", "models", "train"]
sources = {path.relative_to(ROOT).with_suffix("") for folder in FOLDERS
           for path in (ROOT / folder).rglob("*.cpp")
           if path.name != "main.cpp" and path.parent.name not in ("examples", "page", "engine")}
tested = {path.name.removesuffix("_test.cpp") for path in (ROOT / "tests").rglob("*_test.cpp")}
missing = sorted(str(source) for source in sources if source.name not in tested)
print(*missing, f"{len(missing)} of {len(sources)} sources have no test file of their name", sep="\n")
