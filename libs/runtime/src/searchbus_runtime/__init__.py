"""What every searchbus process has in common: settings, logs, telemetry, health, its life."""

from .connecting import BusAddress, bus_options, find_bus, operator_options
from .health import Health, health_app
from .logs import configure_logging
from .process import Process, run
from .settings import ServiceSettings, load_settings
from .state import StackState, data_folder, read_state, write_state
from .tracefile import SpanNode, SpanRecord, build_tree, read_spans

__all__ = [
    "BusAddress",
    "Health",
    "Process",
    "ServiceSettings",
    "SpanNode",
    "SpanRecord",
    "StackState",
    "build_tree",
    "bus_options",
    "configure_logging",
    "data_folder",
    "find_bus",
    "health_app",
    "load_settings",
    "operator_options",
    "read_spans",
    "read_state",
    "run",
    "write_state",
]
