"""All commands, under their names."""

import typer

from wenmai.cli.chat import chat
from wenmai.cli.config import config
from wenmai.cli.conformance import conformance
from wenmai.cli.doctor import doctor
from wenmai.cli.exporting import export_
from wenmai.cli.importing import import_
from wenmai.cli.ingest import ingest
from wenmai.cli.migrate import migrate
from wenmai.cli.serve import serve
from wenmai.cli.version import version

app = typer.Typer(
    name="wenmai",
    help="Wenmai 文脉: conversation memory in which facts come from evidence, never from memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (serve, chat, ingest, config, doctor, migrate, conformance, version):
    app.command()(command)
app.command("import")(import_)
app.command("export")(export_)
