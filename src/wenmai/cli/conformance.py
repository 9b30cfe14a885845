"""``wenmai conformance``: does a backend do what the contracts say?"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from wenmai.cli.console import expected_errors
from wenmai.cli.progress import bar

if TYPE_CHECKING:
    from wenmai.stores.conformance import Report


def conformance(
    url: Annotated[str, typer.Argument(help="URL of the store; what it holds is left alone")],
    only: Annotated[
        list[str] | None, typer.Option(help="A capability or a case; may be given again", show_default=False)
    ] = None,
) -> None:
    """Check a store against the contracts; prints what passed, failed, and is not offered."""
    with expected_errors():
        report = asyncio.run(_check(url, only))
    typer.echo(report.render())
    if not report.rows:
        raise typer.BadParameter(f"no case or capability of these names: {', '.join(only or [])}")
    if not report.ok:
        raise typer.Exit(1)


async def _check(url: str, only: list[str] | None) -> "Report":
    from wenmai.stores import conformance as suite  # noqa: PLC0415 — only this command needs it
    from wenmai.stores.registry import open_store  # noqa: PLC0415

    async with open_store(url):
        pass  # so that a URL that cannot be opened is one error, not one a case
    cases = [case for case in suite.CASES if only is None or {case.name, case.capability} & set(only)]
    done = 0
    with bar("conformance", len(cases)) as shown:

        def on_result(result: "suite.Result") -> None:
            nonlocal done
            done += 1
            shown.show(done, result.case)

        return await suite.run(url, only=only, on_result=on_result)
