"""Draws the table that a benchmark prints, as a chart in SVG.

Usage: decode | python3 chart.py decode decode.svg
       growth context | python3 chart.py context context.svg    (width and threads likewise)
One line per name in the first column, both axes logarithmic.
"""
import math
import sys
from dataclasses import dataclass
from html import escape


@dataclass
class Chart:
    title: str
    x_label: str
    y_label: str
    columns: int  # numbers in a line of the table, after the name
    x: int  # which of them, from 1
    y: int
    unit: str


TRAINING = {"y_label": "microseconds per token", "columns": 3, "x": 1, "y": 2, "unit": "us per token"}
CHARTS = {
    "decode": Chart("Decoding: tokens per second against context", "context, tokens",
                    "tokens per second", 6, 1, 4, "tokens/s"),
    "context": Chart("Training: time per token against context", "context, tokens", **TRAINING),
    "width": Chart("Training: time per token against width", "width of the model", **TRAINING),
    "threads": Chart("Training: time per token against threads", "threads", **TRAINING),
}

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 126, 52, 56  # margins; the right one holds the labels
LABEL_HEIGHT = 16
INK, GRID, PAPER = "#333333", "#e2e2e2", "#ffffff"
# Okabe and Ito's palette, which colour-blind readers tell apart; its yellow is too pale on white.
COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


def read_table(lines, chart):
    """Name -> [(x, y)], in the order of the table."""
    series = {}
    for line in lines:
        # Names may hold spaces, the columns after them do not.
        fields = line.rsplit(maxsplit=chart.columns)
        if len(fields) == chart.columns + 1 and fields[chart.x].isdigit():
            point = (int(fields[chart.x]), float(fields[chart.y]))
            if point[1] > 0:
                series.setdefault(fields[0].strip(), []).append(point)
    return series


def ticks(low, high):
    """Round numbers from low to high, ten at most: digits times powers of ten, fewer where many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (range(1, 10), (1, 2, 5), (1,)):
        values = [step * 10.0**decade for decade in decades for step in steps]
        values = [value for value in values if low <= value <= high]
        if len(values) <= 10:
            break
    return values


def spread(wanted):
    """Heights near the wanted ones, in their order, at least a label apart and in the frame."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    heights = list(wanted)
    for before, i in zip(order, order[1:]):
        heights[i] = max(heights[i], heights[before] + LABEL_HEIGHT)
    limit = HEIGHT - BOTTOM
    for i in reversed(order):
        heights[i] = min(heights[i], limit)
        limit = heights[i] - LABEL_HEIGHT
    return heights


def text(x, y, content, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(content)}</text>'


def line(x1, y1, x2, y2, colour=GRID, width=1):
    return (f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def draw(series, chart):
    xs = sorted({across for points in series.values() for across, _ in points})
    ups = [up for points in series.values() for _, up in points]
    low, high = min(ups) / 1.15, max(ups) * 1.15
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    octaves = math.log2(xs[-1] / xs[0]) or 1

    def x_of(value):
        return LEFT + (right - LEFT) * math.log2(value / xs[0]) / octaves

    def y_of(up):
        return bottom - (bottom - TOP) * math.log(up / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'font-family="sans-serif" font-size="13" fill="{INK}">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{PAPER}"/>',
           text(LEFT, 30, chart.title, "start",
                'font-size="16" font-weight="bold"')]
    for across in xs:
        out += [line(x_of(across), TOP, x_of(across), bottom),
                text(x_of(across), bottom + 18, f"{across:,}")]
    for up in ticks(low, high):
        out += [line(LEFT, y_of(up), right, y_of(up)),
                text(LEFT - 8, y_of(up) + 4, f"{up:,g}" if up < 1 else f"{up:,.0f}", "end")]
    out += [line(LEFT, bottom, right, bottom, INK), line(LEFT, TOP, LEFT, bottom, INK),
            text((LEFT + right) / 2, HEIGHT - 14, chart.x_label),
            text(0, 0, chart.y_label,
                 more=f'transform="translate(20 {(TOP + bottom) / 2:.1f}) rotate(-90)"')]
    heights = spread([y_of(points[-1][1]) for points in series.values()])
    for i, ((name, points), height) in enumerate(zip(series.items(), heights)):
        colour = COLOURS[i % len(COLOURS)]
        places = [(x_of(across), y_of(up)) for across, up in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (across, up), (x, y) in zip(points, places):
            value = escape(f"{name}, {chart.x_label} {across:,}: {up:,.4g} {chart.unit}")
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                       f"<title>{value}</title></circle>")
        x, y = places[-1]
        out += [line(x + 6, y, right + 18, height, colour, 2),
                text(right + 22, height + 4, name, "start")]
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in CHARTS:
        sys.exit(__doc__.strip())
    chart = CHARTS[sys.argv[1]]
    series = read_table(sys.stdin, chart)
    if not series:
        sys.exit(f"chart.py: standard input has no line of the table for {sys.argv[1]}")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(series, chart))


if __name__ == "__main__":
    main()
