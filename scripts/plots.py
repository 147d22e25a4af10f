"""Small SVG plots for reports: no library is needed to draw bars and lines."""
from html import escape

COLOURS = ("#4878a8", "#e0984c", "#6aa56a", "#b05a7a", "#8a7ab8")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 280, 56, 40, 36


def frame(title, unit, top, body, legend):
    """Axes with five marks around what was drawn; `top` is the largest value."""
    plot = HEIGHT - BOTTOM - TOP
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="16" font-size="14">{escape(title)}</text>']
    for i in range(5):
        y = HEIGHT - BOTTOM - plot * i / 4
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 10}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * i / 4:.3g} {escape(unit)}</text>')
    out += body
    x = LEFT
    for i, name in enumerate(legend):
        out.append(f'<rect x="{x}" y="{HEIGHT - 18}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>'
                   f'<text x="{x + 14}" y="{HEIGHT - 9}">{escape(name)}</text>')
        x += 30 + 7 * len(name)
    return "\n".join(out) + "\n</svg>\n"


def stacked_bars(title, unit, names, rows):
    """One bar a row, its values stacked in the order of `names`."""
    top = max(sum(r) for r in rows) or 1
    plot, step = HEIGHT - BOTTOM - TOP, (WIDTH - LEFT - 10) / len(rows)
    body = []
    for i, row in enumerate(rows):
        y = HEIGHT - BOTTOM
        for j, value in enumerate(row):
            h = plot * value / top
            y -= h
            body.append(f'<rect x="{LEFT + i * step:.2f}" y="{y:.2f}" width="{max(step - 1, 0.5):.2f}" height="{h:.2f}" fill="{COLOURS[j % len(COLOURS)]}"/>')
    return frame(title, unit, top, body, names)


def lines(title, unit, series):
    """series: name -> list of (x, y)."""
    points = [p for s in series.values() for p in s]
    right, top = max(x for x, _ in points) or 1, max(y for _, y in points) or 1
    plot = HEIGHT - BOTTOM - TOP
    body = []
    for i, s in enumerate(series.values()):
        path = " ".join(f"{LEFT + (WIDTH - LEFT - 10) * x / right:.1f},{HEIGHT - BOTTOM - plot * y / top:.1f}" for x, y in s)
        body.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="1.5"/>')
    return frame(title, unit, top, body, list(series))
