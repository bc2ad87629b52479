"""A check beside those of schemathesis; it imports this module by SCHEMATHESIS_HOOKS."""

from __future__ import annotations

import schemathesis


@schemathesis.check
def no_internal_error(ctx, response, case):
    """503 and 504 may be true: an upstream refuses, or a machine is slow. 500 never is."""
    assert response.status_code != 500, response.text
