"""The text of web pages: fetched from public addresses, parsed in processes that may be killed."""
