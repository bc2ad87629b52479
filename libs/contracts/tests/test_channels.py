"""The table of subjects, from which proto/asyncapi.yaml is generated."""

from __future__ import annotations

import re

import msgspec
import pytest

from searchbus_contracts import Subjects
from searchbus_contracts.channels import CHANNELS, Channel


def test_addresses_and_keys_are_unique():
    """One subject has one row."""
    assert len({channel.address for channel in CHANNELS}) == len(CHANNELS)
    assert len({channel.key for channel in CHANNELS}) == len(CHANNELS)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.key)
def test_every_channel_has_a_summary_and_structs(channel):
    """Requests have a reply type; events and control messages may have none."""
    assert re.fullmatch(r"[A-Z].*\.", channel.summary)
    assert issubclass(channel.message, msgspec.Struct)
    if channel.reply is None:
        assert channel.address.startswith(("evt.", "ctl.cancel."))
    else:
        assert issubclass(channel.reply, msgspec.Struct)


def test_a_key_is_an_identifier():
    """Braces are removed and dots replaced."""
    channel = Channel("tool.{toolset}.{tool}", "Call a tool.", msgspec.Struct)
    assert channel.key == "tool_toolset_tool"


def test_subjects_are_built_as_the_table_says():
    """Every method of Subjects builds the address of one row."""
    subjects = Subjects("sb")
    built = {
        "tool.{toolset}.{tool}": subjects.tool("toolset", "tool"),
        "catalog.{service}.{hash}": subjects.catalog("service", "hash"),
        "resource.{toolset}.read": subjects.resource("toolset", "read"),
        "retrieval.search": subjects.endpoint("retrieval", "search"),
        "evt.catalog.{service}": subjects.catalog_event("service"),
        "ctl.cancel.{service}": subjects.cancel("service"),
        "ctl.ping.{service}.{instance}": subjects.ping("service", "instance"),
    }
    addresses = {channel.address for channel in CHANNELS}
    for address, subject in built.items():
        assert address in addresses
        assert subject == "sb.v1." + address.replace("{", "").replace("}", "")
