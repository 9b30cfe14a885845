"""The Typer application with all commands."""

import typer

from wenmai.cli.commands.audit import audit
from wenmai.cli.commands.chat import chat
from wenmai.cli.commands.config import config
from wenmai.cli.commands.conformance import conformance
from wenmai.cli.commands.doctor import doctor
from wenmai.cli.commands.encryption import encryption_app
from wenmai.cli.commands.erase import erase
from wenmai.cli.commands.eval import eval_app
from wenmai.cli.commands.export import export_
from wenmai.cli.commands.graph import graph
from wenmai.cli.commands.import_ import import_
from wenmai.cli.commands.ingest import ingest
from wenmai.cli.commands.keys import keys_app
from wenmai.cli.commands.migrate import migrate
from wenmai.cli.commands.rebuild import rebuild_app
from wenmai.cli.commands.recall import recall
from wenmai.cli.commands.redact import redact
from wenmai.cli.commands.serve import serve
from wenmai.cli.commands.version import version

app: typer.Typer = typer.Typer(
    name="wenmai",
    help="Wenmai 文脉: conversation memory in which facts come from evidence, never from memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    serve,
    chat,
    ingest,
    recall,
    redact,
    erase,
    audit,
    config,
    doctor,
    migrate,
    conformance,
    graph,
    version,
):
    app.command()(command)
app.command("import")(import_)
app.command("export")(export_)
app.add_typer(eval_app, name="eval")
app.add_typer(encryption_app, name="encryption")
app.add_typer(keys_app, name="keys")
app.add_typer(rebuild_app, name="rebuild")
