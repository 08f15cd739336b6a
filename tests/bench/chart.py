"""Draws the table that the decode benchmark prints, as a chart in SVG.

Usage: decode | python3 chart.py decode.svg
One line per attention: tokens per second against context, both axes logarithmic.
"""
import math
import sys
from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 126, 52, 56  # margins; the right one holds the labels
LABEL_HEIGHT = 16
INK, GRID, PAPER = "#333333", "#e2e2e2", "#ffffff"
# Okabe and Ito's palette, which colour-blind readers tell apart; its yellow is too pale on white.
COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


def read_table(lines):
    """Attention -> [(context, tokens per second)], in the order of the table."""
    series = {}
    for line in lines:
        # Names may hold spaces, the six columns after them do not.
        fields = line.rsplit(maxsplit=6)
        if len(fields) == 7 and fields[1].isdigit() and float(fields[4]) > 0:
            series.setdefault(fields[0], []).append((int(fields[1]), float(fields[4])))
    return series


def ticks(low, high):
    """1, 2 and 5 times powers of ten from low to high; powers alone where those are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1,)):
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


def draw(series):
    contexts = sorted({context for points in series.values() for context, _ in points})
    rates = [rate for points in series.values() for _, rate in points]
    low, high = min(rates) / 1.15, max(rates) * 1.15
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    octaves = math.log2(contexts[-1] / contexts[0]) or 1

    def x_of(context):
        return LEFT + (right - LEFT) * math.log2(context / contexts[0]) / octaves

    def y_of(rate):
        return bottom - (bottom - TOP) * math.log(rate / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'font-family="sans-serif" font-size="13" fill="{INK}">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{PAPER}"/>',
           text(LEFT, 30, "Decoding: tokens per second against context", "start",
                'font-size="16" font-weight="bold"')]
    for context in contexts:
        out += [line(x_of(context), TOP, x_of(context), bottom),
                text(x_of(context), bottom + 18, f"{context:,}")]
    for rate in ticks(low, high):
        out += [line(LEFT, y_of(rate), right, y_of(rate)),
                text(LEFT - 8, y_of(rate) + 4, f"{rate:,g}" if rate < 1 else f"{rate:,.0f}", "end")]
    out += [line(LEFT, bottom, right, bottom, INK), line(LEFT, TOP, LEFT, bottom, INK),
            text((LEFT + right) / 2, HEIGHT - 14, "context, tokens"),
            text(0, 0, "tokens per second",
                 more=f'transform="translate(20 {(TOP + bottom) / 2:.1f}) rotate(-90)"')]
    heights = spread([y_of(points[-1][1]) for points in series.values()])
    for i, ((name, points), height) in enumerate(zip(series.items(), heights)):
        colour = COLOURS[i % len(COLOURS)]
        places = [(x_of(context), y_of(rate)) for context, rate in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (context, rate), (x, y) in zip(points, places):
            value = escape(f"{name}, context {context:,}: {rate:,.0f} tokens/s")
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                       f"<title>{value}</title></circle>")
        x, y = places[-1]
        out += [line(x + 6, y, right + 18, height, colour, 2),
                text(right + 22, height + 4, name, "start")]
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    series = read_table(sys.stdin)
    if not series:
        sys.exit("chart.py: standard input has no line of decode's table")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(draw(series))


if __name__ == "__main__":
    main()
