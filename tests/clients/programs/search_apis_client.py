"""tavily-python, langchain-tavily and LangChain's SearxSearchWrapper; only the address is ours."""

import json
import sys
import time

from langchain_community.utilities import SearxSearchWrapper
from langchain_tavily import TavilyExtract, TavilySearch
from tavily import TavilyClient

TRIES = 5


def again(call, *arguments, **options):
    """A busy machine may answer 503, after which a client sends its request again."""
    for _ in range(TRIES - 1):
        try:
            found = call(*arguments, **options)
        except Exception:
            found = {"error": "raised"}
        if not isinstance(found, dict) or "error" not in found:  # as tools of LangChain answer
            return found
        time.sleep(1)
    return call(*arguments, **options)


def main(url, query, page, missing):
    client = TavilyClient("tvly-unused", api_base_url=f"{url}/tavily")
    found = {
        "tavily": again(client.search, query, max_results=3, include_raw_content=True),
        "news": again(client.search, query, topic="news", max_results=3, time_range="month"),
        "advanced": again(client.search, query, search_depth="advanced", max_results=2),
        "extract": again(client.extract, [page, missing], timeout=60),
    }
    try:
        client.search(query, exact_match=True)
    except Exception as error:
        found["refused"] = [type(error).__name__, str(error)]
    ours = {"tavily_api_key": "tvly-unused", "api_base_url": f"{url}/tavily"}
    search, extract = TavilySearch(max_results=3, **ours), TavilyExtract(**ours)
    found["langchain"] = again(search.invoke, {"query": query})
    found["langchain_extract"] = again(extract.invoke, {"urls": [page]})
    searx = SearxSearchWrapper(searx_host=f"{url}/searxng")
    found["searx"] = again(searx.results, query, num_results=3)
    found["searx_news"] = again(searx.results, query, 3, categories=["news"], pageno=2)
    found["searx_text"] = again(searx.run, query)
    print(json.dumps(found))


main(*json.loads(sys.argv[1]))
