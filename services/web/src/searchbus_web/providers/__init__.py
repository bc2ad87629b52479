"""The table of search providers. A new one is a module beside this file and its two rows here."""

from __future__ import annotations

from .api import ApiProvider
from .brave import Brave, BraveSettings
from .ddg import DuckDuckGoFleet
from .searxng import SearXNG, SearXNGSettings
from .tavily import Tavily, TavilySettings

PROVIDERS: dict[str, type[ApiProvider] | type[DuckDuckGoFleet]] = {
    provider.name: provider for provider in (Tavily, Brave, SearXNG, DuckDuckGoFleet)
}
"""The providers by name, most important first."""


class ProviderSettings(TavilySettings, BraveSettings, SearXNGSettings):
    """The settings of all providers."""
