"""tavily-python, langchain-tavily and LangChain's SearxSearchWrapper; only the address is ours."""

import json
import sys

from langchain_community.utilities import SearxSearchWrapper
from langchain_tavily import TavilyExtract, TavilySearch
from tavily import TavilyClient


def main(url, query, page, missing):
    client = TavilyClient("tvly-unused", api_base_url=f"{url}/tavily")
    found = {
        "tavily": client.search(query, max_results=3, include_raw_content=True),
        "news": client.search(query, topic="news", max_results=3, time_range="month"),
        "advanced": client.search(query, search_depth="advanced", max_results=2),
        "extract": client.extract([page, missing], timeout=60),
    }
    try:
        client.search(query, exact_match=True)
    except Exception as error:
        found["refused"] = [type(error).__name__, str(error)]
    ours = {"tavily_api_key": "tvly-unused", "api_base_url": f"{url}/tavily"}
    search = TavilySearch(max_results=3, **ours)
    found["langchain"] = search.invoke({"query": query})
    found["langchain_extract"] = TavilyExtract(**ours).invoke({"urls": [page]})
    searx = SearxSearchWrapper(searx_host=f"{url}/searxng")
    found["searx"] = searx.results(query, num_results=3)
    found["searx_news"] = searx.results(query, num_results=3, categories=["news"], pageno=2)
    found["searx_text"] = searx.run(query)
    print(json.dumps(found))


main(*json.loads(sys.argv[1]))
