"""The files in deploy/ fit together: what they name is there, and what can check them finds nothing."""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
SERVICE_KEYS = {
    "image",
    "build",
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "init",
    "ports",
    "restart",
    "stop_grace_period",
    "volumes",
}
"""What the compose specification knows, as far as it is used here."""


@pytest.fixture
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


def test_the_compose_file_holds_what_its_specification_knows_and_names_nothing_that_is_not_there(
    compose: dict[str, Any],
) -> None:
    assert {name for name in compose if not name.startswith("x-")} == {"name", "services", "volumes"}
    services = compose["services"]
    for name, service in services.items():
        assert set(service) <= SERVICE_KEYS, name
        assert set(service.get("depends_on", {})) <= set(services), name
        for wanted in service.get("depends_on", {}).values():
            assert wanted["condition"] in {"service_started", "service_healthy"}
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in compose["volumes"], name
        for port in service.get("ports", ()):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), "only this machine is let in unless somebody says so"
        if "build" in service:
            build = service["build"]
            context = (DEPLOY / build["context"]).resolve()
            assert context == ROOT
            assert (context / build["dockerfile"]).is_file()
    assert set(compose["volumes"]) == {"database", "first", "second"}


def test_two_hosts_share_one_database_under_names_and_volumes_of_their_own(compose: dict[str, Any]) -> None:
    services = compose["services"]
    hosts = {name: service for name, service in services.items() if "build" in service}
    assert {service["environment"]["ANTIPHON__HOST__NAME"] for service in hosts.values()} == set(hosts)
    assert len({service["volumes"][0] for service in hosts.values()}) == len(hosts) == 2
    database = services["database"]
    assert database["healthcheck"]["test"][0] == "CMD-SHELL"
    for service in hosts.values():
        assert service["depends_on"] == {"database": {"condition": "service_healthy"}}
        environment = service["environment"]
        user, place = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
        assert environment["ANTIPHON_STORE"] == f"postgresql://{user}@database:5432/{place}"
        assert environment["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    assert "POSTGRES_PASSWORD:?" in database["environment"]["POSTGRES_PASSWORD"], "there is no password that all know"


def test_compose_itself_reads_the_file_where_it_is_installed() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no docker compose on this machine")
    environment = os.environ | {"POSTGRES_PASSWORD": "any"}
    command = [docker, "compose", "-f", str(COMPOSE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_is_made_of_what_the_checkout_has() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    instructions = re.findall(r"^([A-Z]+) ", text, re.MULTILINE)
    assert instructions[0] == "FROM"
    assert {"USER", "CMD", "VOLUME"} <= set(instructions)
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines():
        if line.startswith("!"):
            assert (ROOT / line[1:]).exists(), line


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    unit = DEPLOY / "antiphon@.service"
    parsed = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    parsed.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  # names have capitals
    parsed.read_string(unit.read_text())
    assert parsed.sections() == ["Unit", "Service", "Install"]
    service = parsed["Service"]
    program, command, *_ = service["ExecStart"].split()
    assert (Path(program).name, command, service["KillMode"]) == ("antiphon", "serve", "mixed")
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace(program, "/bin/true"))
    done = subprocess.run([analyze, "verify", str(here)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
