"""What `deploy/` holds, read as Docker, Compose and Kubernetes read it."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
IMAGE = "wenmai"
FILLED_IN = {"POSTGRES_PASSWORD": "s3cret", "REDIS_PASSWORD": "s3cret"}

INTERPOLATED = re.compile(r"\$\$|\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<rest>[^}]*))?\}")
"""Where a compose file puts in a variable."""


def example_environment() -> dict[str, str]:
    """The variables of `.env.example`."""
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def interpolated(node: Any, environment: Mapping[str, str]) -> Any:
    """What was read of a compose file with its variables put in, as Compose does it: in texts, after reading.

    Raises:
        KeyError: a variable that must be set is not.
    """

    def value(found: re.Match[str]) -> str:
        if found["name"] is None:
            return "$"
        given = environment.get(found["name"], "")
        if not given and found["kind"] == ":?":
            raise KeyError(found["name"])
        return given or (found["rest"] if found["kind"] == ":-" else "")

    if isinstance(node, dict):
        return {key: interpolated(each, environment) for key, each in node.items()}
    if isinstance(node, list):
        return [interpolated(each, environment) for each in node]
    return INTERPOLATED.sub(value, node) if isinstance(node, str) else node


def compose_text() -> str:
    """The compose file."""
    return (DEPLOY / "compose.yaml").read_text(encoding="utf-8")


@cache
def services() -> dict[str, Any]:
    """The services of the compose file, with the example's values and passwords put in."""
    read = interpolated(yaml.safe_load(compose_text()), {**example_environment(), **FILLED_IN})
    found: dict[str, Any] = read["services"]
    return found


@cache
def manifests() -> list[dict[str, Any]]:
    """Every Kubernetes object and kustomization."""
    files = [*sorted(KUBERNETES.rglob("*.yaml")), DEPLOY / "proxy/kustomization.yaml"]
    return [each for path in files for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def manifest(kind: str) -> dict[str, Any]:
    """The one object of this kind."""
    (found,) = (each for each in manifests() if each["kind"] == kind)
    return found


def pods() -> dict[str, dict[str, Any]]:
    """The specification of the pods, by the kind of what makes them."""
    return {kind: manifest(kind)["spec"]["template"]["spec"] for kind in ("Deployment", "Job")}


def container(name: str) -> dict[str, Any]:
    """A container of the Deployment."""
    found: dict[str, Any] = next(each for each in pods()["Deployment"]["containers"] if each["name"] == name)
    return found


def config_literals() -> dict[str, str]:
    """What the kustomization puts into the ConfigMap."""
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    (generated,) = kustomization["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generated["literals"])


def secret(name: str) -> dict[str, str]:
    """What the example of a Secret holds."""
    (found,) = (each for each in manifests() if each["kind"] == "Secret" and each["metadata"]["name"] == name)
    held: dict[str, str] = found["stringData"]
    return held


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments on one line."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines if line)]


def last(instruction: str) -> str:
    """The arguments that count: of the last such instruction."""
    return [rest for word, rest in instructions() if word == instruction][-1]


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(part.split("=", 1) for part in last("ENV").split())


@cache
def tree() -> frozenset[str]:
    """The files of the repository, and those that are about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return frozenset(name for name in listed if name and (ROOT / name).is_file())


def copied() -> set[str]:
    """The files of the repository that the Dockerfile copies."""
    sources = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    files: set[str] = set()
    for source in sources:
        found = {name for name in tree() if name == source or name.startswith(f"{source}/")}
        assert found, f"{source} is not in the tree"
        files |= found
    return files


def let_through() -> set[str]:
    """The files of the repository that `.dockerignore` leaves in the build: the last line that fits decides."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    return {name for name in tree() if not _ignored(name, rules)}


def _ignored(name: str, rules: list[str]) -> bool:
    ignored = False
    for rule in rules:
        pattern = re.escape(rule.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        pattern = pattern.replace(r"\[co\]", "[co]")
        if re.fullmatch(f"{pattern}(/.*)?", name):
            ignored = not rule.startswith("!")
    return ignored


def environments() -> dict[str, dict[str, str]]:
    """What each container of ours is given, by where it is said."""
    found = {f"compose {name}": each["environment"] for name, each in services().items() if _ours(each)}
    kubernetes = {**config_literals(), **secret("wenmai")}
    job = {entry["name"]: secret("wenmai")[entry["name"]] for entry in pods()["Job"]["containers"][0]["env"]}
    return {
        **found,
        "kubernetes": kubernetes,
        "job": job,
        "example": example_environment(),
        "image": image_environment(),
    }


def _ours(service: Mapping[str, Any]) -> bool:
    return str(service["image"]).partition(":")[0] == IMAGE


def commands() -> Iterator[list[str]]:
    """Every command line of ours, without the program."""
    yield json.loads(last("CMD"))
    yield from (each["command"] for each in services().values() if _ours(each))
    for pod in pods().values():
        yield from (each["args"] for each in pod["containers"] if each["image"] == IMAGE)
