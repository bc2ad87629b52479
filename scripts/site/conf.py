"""Sphinx's settings. What it reads is gathered by `pages.py`; nothing comes from another host."""

project = "searchbus"
extensions = ["myst_parser"]
root_doc = "index"
html_theme = "furo"
html_title = "searchbus"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
# Links lead to headings by the names that GitHub gives them.
myst_heading_anchors = 4
# A tutorial shows what a program prints; a comment in JSON is no fault.
suppress_warnings = ["misc.highlighting_failure"]
