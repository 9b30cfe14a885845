"""``wenmai eval``: measure answers, verification and recall on labelled cases."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wenmai.cli.memory import memory_from_settings
from wenmai.cli.options import ConfigFile, EmbedderName, ModelName, ModelUrl, ProfileName, StoreUrl, load
from wenmai.cli.terminal.output import expected_errors, report_skipped
from wenmai.cli.terminal.progress import bar
from wenmai.config.profile import load_profile
from wenmai.config.sources import profile_path
from wenmai.errors import InvalidInput
from wenmai.text.printable import printable

if TYPE_CHECKING:
    from wenmai.evaluation.cases import Dialogue
    from wenmai.evaluation.recall_report import RecallReport
    from wenmai.evaluation.report import AnswerReport, StatementReport

eval_app: typer.Typer = typer.Typer(
    help="Measure answers, verification and recall on labelled cases.", no_args_is_help=True
)

SetPath = Annotated[Path, typer.Argument(help="A file, or a folder with such files", exists=True, readable=True)]
HalfName = Annotated[
    Literal["tuned", "aside", "all"], typer.Option("--half", help="Only cases of one half, by a hash of their id")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
Shown = Annotated[int, typer.Option("--failures", min=0, help="Print so many failed cases")]
FailuresFile = Annotated[
    Path | None, typer.Option("--failures-json", help="Write all failed cases there", dir_okay=False)
]


@eval_app.command()
def answers(
    path: SetPath,
    *,
    half: HalfName = "all",
    documents: Annotated[int, typer.Option(min=1, help="Passages of a reading set to ingest")] = 200,
    questions: Annotated[
        int | None, typer.Option(min=0, help="Questions asked about them; default: one of each", show_default=False)
    ] = None,
    unanswerable: Annotated[int, typer.Option(min=0, help="Questions about passages that are not ingested")] = 100,
    as_json: AsJson = False,
    failures: Shown = 0,
    failures_json: FailuresFile = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
) -> None:
    """Ask the questions of dialogues (answers.yaml), or of a reading set (JSON of SQuAD, DRCD, CMRC)."""
    from wenmai.evaluation.answers import ask_set  # noqa: PLC0415 — slow to import
    from wenmai.evaluation.cases import AnswerSet, dialogues_in  # noqa: PLC0415
    from wenmai.evaluation.loading import find_files, load_answer_set  # noqa: PLC0415
    from wenmai.evaluation.reading import ReadingLimits, load_reading_set  # noqa: PLC0415
    from wenmai.evaluation.report import AnswerReport  # noqa: PLC0415
    from wenmai.evaluation.scoring import AskedTurn  # noqa: PLC0415

    limits = ReadingLimits(documents, questions, unanswerable)

    def read(file: Path, name: str) -> AnswerSet:
        if file.suffix == ".json":
            return load_reading_set(file, name, limits, half)
        return dialogues_in(load_answer_set(file, name), half)

    asked: list[AskedTurn] = []
    with expected_errors():
        sets = [read(file, name) for file, name in _named(find_files(path, "answers.yaml"))]
        with bar("ask", sum(len(each.dialogues) for each in sets)) as progress:
            done = 0

            def on_dialogue(dialogue: "Dialogue") -> None:
                nonlocal done
                done += 1
                progress.show(done, dialogue.id)

            for each in sets:
                settings = load(
                    config,
                    profile=profile or each.profile,
                    model=model,
                    model_base_url=model_base_url,
                    embedder=embedder,
                ).values
                asked += asyncio.run(ask_set(settings, each, on_dialogue=on_dialogue))
        _print(AnswerReport(asked), as_json=as_json, failures=failures, failures_json=failures_json)


@eval_app.command()
def verification(
    path: SetPath,
    *,
    half: HalfName = "all",
    as_json: AsJson = False,
    failures: Shown = 0,
    failures_json: FailuresFile = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Verify models' answers of true and false statements (verification.yaml)."""
    from wenmai.evaluation.cases import answers_in  # noqa: PLC0415 — slow to import
    from wenmai.evaluation.loading import find_files, load_statement_set  # noqa: PLC0415
    from wenmai.evaluation.report import StatementReport  # noqa: PLC0415
    from wenmai.evaluation.statements import verify_set  # noqa: PLC0415

    with expected_errors():
        files = _named(find_files(path, "verification.yaml"))
        verified = []
        for each in [answers_in(load_statement_set(file, name), half) for file, name in files]:
            settings = load(config, profile=profile or each.profile).values
            verified.append(verify_set(each, load_profile(profile_path(settings.profile))))
        _print(StatementReport(verified), as_json=as_json, failures=failures, failures_json=failures_json)


@eval_app.command()
def recall(
    path: Annotated[Path, typer.Argument(help="A file or a folder of conversations with questions", exists=True)],
    *,
    as_json: AsJson = False,
    failures: Shown = 0,
    failures_json: FailuresFile = None,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    embedder: EmbedderName = None,
) -> None:
    """Import conversations and ask for their messages: LoCoMo, MemoryBank, JSON lines. The store must be empty."""
    from wenmai.evaluation.recall import AskedQuestion, ask_questions, import_sets  # noqa: PLC0415 — slow to import
    from wenmai.evaluation.recall_report import RecallReport  # noqa: PLC0415
    from wenmai.evaluation.recall_sets import load_recall_sets  # noqa: PLC0415

    async def ask() -> list[AskedQuestion]:
        settings = load(config, store=store or "memory://", profile=profile, embedder=embedder).values
        asked: list[AskedQuestion] = []
        async with memory_from_settings(settings) as memory:
            with bar("index") as progress:
                reports = await import_sets(
                    memory, sets, lambda vectors, entries: progress.show(vectors, f"{entries} messages", total=entries)
                )
            report_skipped(
                [f"{name}: {bad.reason}" for name, report in reports.items() for bad in report.skipped],
                sum(report.skipped_count for report in reports.values()),
            )
            with bar("ask", sum(len(each.questions) for each in sets)) as progress:
                for each in sets:
                    done = len(asked)
                    asked += await ask_questions(memory, each)
                    progress.show(len(asked), f"{len(asked) - done} of {each.name}")
        return asked

    with expected_errors():
        sets = load_recall_sets(path)
        _print(RecallReport(asyncio.run(ask())), as_json=as_json, failures=failures, failures_json=failures_json)


def _named(files: Sequence[Path]) -> list[tuple[Path, str]]:
    """Each file with the name of its set: that of a reading set's file, else that of the folder."""
    return [(file, file.stem if file.suffix == ".json" else file.resolve().parent.name) for file in files]


def _print(
    report: "AnswerReport | StatementReport | RecallReport", *, as_json: bool, failures: int, failures_json: Path | None
) -> None:
    from wenmai.evaluation.report import failure_lines, table  # noqa: PLC0415 — slow to import

    failed = report.failures()
    if failures_json is not None:
        _write(failures_json, failed)
    if as_json:
        typer.echo(json.dumps(report.figures(), ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join([*table(list(report.rows())), *report.notes()]))
    for each in failed[:failures]:
        typer.echo(printable("\n".join(["", *failure_lines(each)])), err=as_json)


def _write(file: Path, failed: Sequence[dict[str, Any]]) -> None:
    try:
        file.write_text(json.dumps(failed, ensure_ascii=False, indent=1), encoding="utf-8")
    except OSError as problem:
        raise InvalidInput("failures-json", str(file), f"a writable file: {problem.strerror}") from problem
