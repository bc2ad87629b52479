"""/api/v1: every tool as a POST with JSON, described by /openapi.json."""
