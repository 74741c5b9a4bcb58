# Sphinx's configuration of the documents as a site; packaging/site/build lays out the pages and calls Sphinx.
project = "Switchyard"
author = "The Switchyard authors"
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Switchyard"
# Options begin with two hyphens.
smartquotes = False
html_copy_source = False
html_show_copyright = False
# Links to headings, as GitHub and GitLab name them.
myst_heading_anchors = 4
# Blocks in a language that Pygments does not know are no broken links.
suppress_warnings = ["misc.highlighting_failure"]
