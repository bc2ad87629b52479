"""tools/call: limits, arguments, the request on the bus, rendering, audit and telemetry."""
