"""Parses files as XML and prints what makes one ill-formed.

Usage: python3 well_formed.py FILE-OR-FOLDER...
Of a folder, its .html and .svg files, at least one. Ends with 1 if a file is ill-formed.
"""
import pathlib
import sys
from xml.etree import ElementTree


def files(path):
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in (".html", ".svg"))
    if not found:
        sys.exit(f"{path} has neither .html nor .svg files")
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    faults = []
    for file in [file for name in sys.argv[1:] for file in files(pathlib.Path(name))]:
        try:
            ElementTree.parse(file)
        except ElementTree.ParseError as fault:
            faults.append(f"{file}: {fault}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
