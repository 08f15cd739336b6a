// SVG pictures as files of their own, which hold the rules of their colours.
import { readFileSync } from "node:fs";

const style = readFileSync(new URL("plot.css", import.meta.url), "utf8");
export const withStyle = (svg) =>
  svg.replace('<rect class="paper"', () => `<style>\n${style}</style>\n<rect class="paper"`);
