"""Requests that schemathesis makes from the API's description get nothing but the statuses that it names."""

from __future__ import annotations

import pytest

pytest.importorskip("schemathesis")
pytest.importorskip("fastapi")

import schemathesis
from hypothesis import HealthCheck, given, settings

from served_process import served_process
from small_service import make_index

EXAMPLES = 25
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="session")
def api(tmp_path_factory):
    folder = make_index(tmp_path_factory.mktemp("fuzzing") / "idx")
    arguments = [folder]
    try:
        from small_service import save_models

        models = save_models(tmp_path_factory.mktemp("models"))
        arguments += [word for kind, model in models.items() for word in (f"--{kind}", f"small={model}")]
    except ImportError:  # without torch there are no models to serve
        pass
    with served_process(*arguments) as service:
        yield schemathesis.openapi.from_url(f"{service.url}/openapi.json")
        assert "Traceback" not in "".join(service.lines)


@pytest.mark.fuzz
def test_any_request_gets_a_documented_reply(api):
    checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
    operations = [result.ok() for result in api.get_all_operations()]
    assert len(operations) >= 10
    for operation in operations:

        @settings(
            max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None, database=None
        )
        @given(case=operation.as_strategy())
        def send(case):
            case.validate_response(case.call(timeout=60), checks=checks)

        send()
