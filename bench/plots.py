"""Bar charts as SVG, which follow the reader's choice of light or dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
LETTER = 7.2  # the width of one, about
VALUE = 92  # the column of the figures, right of the bars
ROW = 26
BAR = 16
TOP = 62  # title and subtitle
GROUP = 30  # the heading of a group, with the space above it
FOOT = 30

STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
  text { fill: #17211e }
  .title { font-size: 17px; font-weight: 600 }
  .soft { fill: #52605b; font-size: 12px }
  .group { font-weight: 600 }
  .background { fill: #ffffff }
  .bar { fill: #b5c1bb }
  .ours { fill: #0c6b63 }
  .pale { opacity: 0.45 }
  .name-ours { font-weight: 600; fill: #0c6b63 }
  .range { stroke: #52605b; stroke-width: 1.5 }
  .goal { stroke: #8a5a12; stroke-width: 2; stroke-dasharray: 3 2 }
  .goal-text { fill: #8a5a12; font-size: 12px }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6ecea }
    .soft { fill: #9dafa8 }
    .background { fill: #151b1a }
    .bar { fill: #4a5a54 }
    .ours { fill: #4fd1bd }
    .name-ours { fill: #4fd1bd }
    .range { stroke: #9dafa8 }
    .goal { stroke: #e6b673 }
    .goal-text { fill: #e6b673 }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One candidate: its figure, the least and the greatest of its rounds, and its goal.

    A pale bar is one for comparison.
    """

    name: str
    value: float
    low: float
    high: float
    is_ours: bool = False
    is_pale: bool = False
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one work."""

    title: str
    bars: Sequence[Bar]


def bar_chart(
    title: str, subtitle: str, groups: Sequence[Group], *, common_scale: bool = True
) -> str:
    """Return an SVG with a horizontal bar for each candidate."""
    most = max(map(_greatest, groups))
    names = 28 + LETTER * max(len(bar.name) for group in groups for bar in group.bars)
    parts: list[str] = []
    position = TOP
    for group in groups:
        position += GROUP
        parts.append(_text(16, position - 9, group.title, "group"))
        parts += _bars(group, position, names, most if common_scale else _greatest(group))
        position += ROW * len(group.bars)
    height = position + FOOT
    description = f"{title}. {subtitle}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(description)}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<rect class="background" width="{WIDTH}" height="{height}" rx="6"/>\n'
    )
    parts = [_text(16, 30, title, "title"), _text(16, 50, subtitle, "soft"), *parts]
    if any(bar.goal is not None for group in groups for bar in group.bars):
        parts.append(_line(17, height - 20, 17, height - 8, "goal"))
        parts.append(_text(26, height - 10, "the goal for Holdfast", "goal-text"))
        parts.append(_line(170, height - 14, 196, height - 14, "range"))
        parts.append(_text(203, height - 10, "least and greatest round", "soft"))
    else:
        parts.append(_line(16, height - 14, 42, height - 14, "range"))
        parts.append(_text(49, height - 10, "least and greatest round", "soft"))
    return head + "\n".join(parts) + "\n</svg>\n"


def _greatest(group: Group) -> float:
    return max(max(bar.high, bar.goal or 0.0) for bar in group.bars) or 1.0


def _bars(group: Group, top: float, left: float, most: float) -> list[str]:
    scale = (WIDTH - left - VALUE) / most
    parts = []
    for number, bar in enumerate(group.bars):
        y = top + number * ROW
        middle = y + BAR / 2
        name = "name-ours" if bar.is_ours else ""
        parts.append(_text(left - 10, middle + 4.5, bar.name, name, anchor="end"))
        kind = "bar" + " ours" * bar.is_ours + " pale" * bar.is_pale
        place = f'x="{left:.1f}" y="{y:.1f}" width="{max(bar.value * scale, 1.0):.1f}"'
        parts.append(f'<rect class="{kind}" {place} height="{BAR}" rx="2"/>')
        if bar.high > bar.low:
            ends = left + bar.low * scale, left + bar.high * scale
            parts.append(_line(ends[0], middle, ends[1], middle, "range"))
        if bar.goal is not None:
            x = left + bar.goal * scale
            parts.append(_line(x, y - 3, x, y + BAR + 3, "goal"))
        parts.append(_text(WIDTH - 16, middle + 4.5, shown(bar.value), name, anchor="end"))
    return parts


def shown(value: float) -> str:
    """Return a figure with as many digits as it deserves."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, text: str, kind: str, *, anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}{place}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
