"""The health of several processes as that of one."""

from __future__ import annotations

import json

from searchbus_runtime.health import Health, health_app
from searchbus_runtime.server import HttpServer
from searchbus_runtime.several import answer_of_all, merged

FIRST = """# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{tool="a b"} 1.0
calls_total{} 2.0
# HELP up Whether.
# TYPE up gauge
up 1.0
"""


def test_metrics_name_their_process_and_families_stay_together():
    """As Prometheus demands; what only one process has is there as well."""
    second = "# HELP up Whether.\n# TYPE up gauge\nup 0.0\n# TYPE more gauge\nmore 3.0\n# EOF\n"
    assert merged([FIRST + "# EOF\n", second]).splitlines() == [
        "# HELP calls_total Calls.",
        "# TYPE calls_total counter",
        'calls_total{process="0",tool="a b"} 1.0',
        'calls_total{process="0"} 2.0',
        "# HELP up Whether.",
        "# TYPE up gauge",
        'up{process="0"} 1.0',
        'up{process="1"} 0.0',
        "# TYPE more gauge",
        'more{process="1"} 3.0',
        "# EOF",
    ]
    assert not merged([FIRST]).endswith("# EOF\n")


async def test_the_worst_process_decides():
    """And one that does not answer fails."""
    health = Health()
    servers = [await HttpServer.start(health_app(one)) for one in (health, Health())]
    addresses = [server.url for server in servers]
    status, _, body = await answer_of_all(addresses, "/readyz", "")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    health.draining = True
    status, _, body = await answer_of_all(addresses, "/readyz", "")
    found = json.loads(body)
    assert (status, found["status"]) == (503, "failing")
    assert [one["status"] for one in found["processes"]] == ["failing", "ok"]
    assert (await answer_of_all(addresses, "/metrics", ""))[0] == 200
    assert (await answer_of_all(addresses, "/other", ""))[0] == 404
    await servers[1].stop()
    status, _, body = await answer_of_all(addresses, "/healthz", "")
    assert (status, len(json.loads(body)["processes"])) == (503, 2)
    await servers[0].stop()
