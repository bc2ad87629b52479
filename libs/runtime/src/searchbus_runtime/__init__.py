"""What every searchbus process has in common: settings, logs, telemetry, health, its life."""

from .health import Health, health_app
from .logs import configure_logging
from .process import Process, bus_options, run
from .settings import ServiceSettings, load_settings
from .state import StackState, data_folder, operator_options, read_state, write_state
from .tracefile import SpanNode, SpanRecord, build_tree, read_spans

__all__ = [
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
    "health_app",
    "load_settings",
    "operator_options",
    "read_spans",
    "read_state",
    "run",
    "write_state",
]
