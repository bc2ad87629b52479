"""Plain HTTP for every tool: /api/v1, its OpenAPI document, and a page that shows it."""
