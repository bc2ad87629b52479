"""A plan: several calls as one, their results used by each other and selected at the end.

paths.py      JSONPath between the steps; rows of results: joined, filtered, limited
checking.py   what a caller writes and receives, and what is refused before the first call
running.py    run_plan, and its calls, each by the pipeline of all calls
"""
