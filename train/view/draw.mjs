// Draws the pictures of the Markdown files from kept results: node train/view/draw.mjs [--check]
// With --check it writes nothing, and ends with 1 if a picture differs from what it would draw.
import { readFileSync, writeFileSync } from "node:fs";
import { lossByPosition } from "./charts.js";
import { withStyle } from "./picture_file.mjs";

const folder = new URL("../../", import.meta.url);
const read = (file) => readFileSync(new URL(file, folder), "utf8");

// Picture, function of charts.js, results.
const kPictures = [
  ["train/compare/positions.svg", lossByPosition,
    "tests/bench/results/shakespeare_context1024.json"],
];

const isCheck = process.argv[2] === "--check";
for (const [file, draw, results] of kPictures) {
  const svg = withStyle(draw(JSON.parse(read(results))).svg);
  if (!isCheck) writeFileSync(new URL(file, folder), svg);
  else if (read(file) !== svg) {
    console.error(`${file} is not what ${results} shows; run: node train/view/draw.mjs`);
    process.exitCode = 1;
  }
}
