"""Engines without a key beside DuckDuckGo's web search; a new one is a file here and its rows in
this table and in searchbus_contracts.engines.
"""

from .base import Engine
from .brave_page import BravePage
from .ddg_news import DuckDuckGoNews
from .marginalia import Marginalia
from .mojeek import Mojeek
from .wikipedia import Wikipedia

BY_NAME: dict[str, type[Engine]] = {
    engine.name: engine for engine in (DuckDuckGoNews, Wikipedia, Marginalia, Mojeek, BravePage)
}
