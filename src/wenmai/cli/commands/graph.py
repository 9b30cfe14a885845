"""``wenmai graph``."""

from collections.abc import Iterator

import typer

from wenmai.chat.nodes import FIRST, NODES


def graph() -> None:
    """Print the turn as a Mermaid diagram: its nodes with their steps, and its decisions."""
    typer.echo("\n".join(_mermaid()))


def _mermaid() -> Iterator[str]:
    yield "flowchart TD"
    yield f"    __start__([start]) --> {FIRST}"
    for name, node in NODES.items():
        steps = ", ".join(step for step, _ in node.steps)
        yield f'    {name}["{name}: {steps}"]'
        for successor in node.successors or (None,):
            yield f"    {name} --> {successor or '__end__([end])'}"
