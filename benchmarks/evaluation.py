"""The labelled cases of the repository, ``tests/grounding``, as ``wenmai eval`` scores them; no model, no embedder."""

import asyncio
from pathlib import Path

from wenmai.config.profile import load_profile
from wenmai.config.settings import Settings
from wenmai.config.sources import profile_path
from wenmai.engine import load_engine_settings
from wenmai.evaluation.answers import ask_set
from wenmai.evaluation.loading import load_answer_set, load_statement_set
from wenmai.evaluation.report import AnswerReport, StatementReport
from wenmai.evaluation.scoring import AskedTurn
from wenmai.evaluation.statements import VerifiedSet, verify_set

CASES = Path(__file__).parents[1] / "tests" / "grounding"


def measure(skipped: dict[str, str]) -> dict[str, list[list[str]]]:
    """The tables of answers and of verification, by title; a kind without cases is noted as skipped."""
    tables: dict[str, list[list[str]]] = {}
    asked: list[AskedTurn] = []
    for file in sorted(CASES.rglob("answers.yaml")):
        answers = load_answer_set(file, file.parent.name)
        asked += asyncio.run(ask_set(_settings(answers.profile), answers))
    verified: list[VerifiedSet] = []
    for file in sorted(CASES.rglob("verification.yaml")):
        statements = load_statement_set(file, file.parent.name)
        verified.append(verify_set(statements, load_profile(profile_path(_settings(statements.profile).profile))))
    if asked:
        tables["Answers of the repository's cases"] = list(AnswerReport(asked).rows())
    else:
        skipped["answers"] = f"no answers.yaml below {CASES.name}"
    if verified:
        tables["Verification of the repository's cases"] = list(StatementReport(verified).rows())
    else:
        skipped["verification"] = f"no verification.yaml below {CASES.name}"
    return tables


def _settings(profile: str | None) -> Settings:
    return load_engine_settings(flags={"profile": profile, "embedder": "none"}, environment={}).values
