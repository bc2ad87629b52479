"""Settings of the service."""

from __future__ import annotations

import pytest

from searchbus_web.providers import PROVIDERS
from searchbus_web.settings import WebSettings


def test_settings_name_what_is_missing():
    """A named provider needs its key."""
    with pytest.raises(ValueError, match="SEARCHBUS_TAVILY_API_KEYS"):
        WebSettings(web_providers=("tavily",))
    assert WebSettings().providers == ("ddg",)
    assert WebSettings(brave_api_keys=("x",)).providers == ("brave",)
    assert "secret" not in repr(WebSettings(tavily_api_keys=("secret",)))


def test_unknown_provider_is_refused_with_the_known_ones():
    """Those of the table."""
    with pytest.raises(ValueError, match=f"'nowhere': use {', '.join(PROVIDERS)}"):
        WebSettings(web_providers=("nowhere",))


def test_configured_providers_are_used_in_the_order_of_their_importance():
    """Unless the operator names others."""
    both = {"brave_api_keys": ("b",), "tavily_api_keys": ("t",), "searxng_url": "http://s"}
    assert WebSettings(**both).providers == ("tavily", "brave", "searxng")
    assert WebSettings(**both, web_providers=("brave", "ddg")).providers == ("brave", "ddg")
    for name, variable in (("brave", "BRAVE_API_KEYS"), ("searxng", "SEARXNG_URL")):
        with pytest.raises(ValueError, match=f"SEARCHBUS_{variable}"):
            WebSettings(web_providers=(name,))
