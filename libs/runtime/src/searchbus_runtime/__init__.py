"""What every searchbus process has in common: settings, logs, telemetry, health, start and drain.

Names are imported at their first use (PEP 562): a command that reads the state of the running stack
needs neither pydantic nor OpenTelemetry nor NATS.
"""

from typing import TYPE_CHECKING

from searchbus_contracts.lazy import lazy_exports

if TYPE_CHECKING:
    from .connection import BusAddress, bus_options, find_bus, open_bus, stack_options
    from .health import Health, health_app
    from .logs import configure_logging
    from .process import Process, run
    from .secret import Secret
    from .settings import FollowingSettings, ServiceSettings, SigningSettings, load_settings
    from .state import StackState, data_folder, no_stack, read_state, write_state
    from .traces import SpanNode, SpanRecord, build_tree, read_spans

__all__ = [
    "BusAddress", "FollowingSettings", "Health", "Process", "Secret", "ServiceSettings",
    "SigningSettings", "SpanNode", "SpanRecord", "StackState", "build_tree", "bus_options",
    "configure_logging", "data_folder", "find_bus", "health_app", "load_settings", "no_stack",
    "open_bus", "read_spans", "read_state", "run", "stack_options", "write_state",
]  # fmt: skip

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "connection": ("BusAddress", "bus_options", "find_bus", "open_bus", "stack_options"),
        "health": ("Health", "health_app"),
        "logs": ("configure_logging",),
        "process": ("Process", "run"),
        "secret": ("Secret",),
        "settings": (
            "FollowingSettings", "ServiceSettings", "SigningSettings", "load_settings",
        ),
        "state": ("StackState", "data_folder", "no_stack", "read_state", "write_state"),
        "traces": ("SpanNode", "SpanRecord", "build_tree", "read_spans"),
    },
)  # fmt: skip
