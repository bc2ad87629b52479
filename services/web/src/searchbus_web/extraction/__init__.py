"""The text of web pages, fetched safely and read in processes that may be killed."""
