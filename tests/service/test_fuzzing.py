from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from served_process import served_process

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.mark.fuzz
def test_any_request_gets_a_documented_reply(folder, models):
    arguments = [word for kind, model in models.items() for word in (f"--{kind}", f"small={model}")]
    with served_process(folder, *arguments) as service:
        api = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
        checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
        operations = [result.ok() for result in api.get_all_operations()]
        assert len(operations) >= 10
        for operation in operations:

            @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None, database=None)
            @given(case=operation.as_strategy())
            def send(case):
                case.validate_response(case.call(timeout=60), checks=checks)

            send()
        assert "Traceback" not in "".join(service.lines)
