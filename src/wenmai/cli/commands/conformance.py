"""``wenmai conformance``: check a store backend against the contracts."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from wenmai.cli.terminal.output import expected_errors
from wenmai.cli.terminal.progress import bar

if TYPE_CHECKING:
    from wenmai.stores.conformance import Report


def conformance(
    url: Annotated[str, typer.Argument(help="URL of the store; its data is not changed")],
    only: Annotated[
        list[str] | None, typer.Option(help="A capability or a case; repeatable", show_default=False)
    ] = None,
) -> None:
    """Run the conformance suite on a store; prints passed, failed and unsupported cases."""
    with expected_errors():
        report = asyncio.run(_check(url, only))
    typer.echo(report.render())
    if not report.rows:
        raise typer.BadParameter(f"no such case or capability: {', '.join(only or [])}")
    if not report.ok:
        raise typer.Exit(1)


async def _check(url: str, only: list[str] | None) -> "Report":
    from wenmai.stores import conformance as suite  # noqa: PLC0415 — slow to import
    from wenmai.stores.opening import open_store  # noqa: PLC0415

    async with open_store(url):
        pass  # report an invalid URL once, not once per case
    cases = [case for case in suite.CASES if only is None or {case.name, case.capability} & set(only)]
    done = 0
    with bar("conformance", len(cases)) as progress:

        def on_result(result: "suite.Result") -> None:
            nonlocal done
            done += 1
            progress.show(done, result.case)

        return await suite.run(url, only=only, on_result=on_result)
