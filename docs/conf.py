"""Configuration of the documentation site; `make docs` builds it in the folder `site`."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import idbandits

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "extensions"))

project = "idbandits"
author = "the authors of idbandits"
version = release = idbandits.__version__
language = "en"
smartquotes = False  # options are written with two dashes

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "site_pages"]
root_doc = "index"
exclude_patterns = ["extensions", "figures", "results", "gallery", "generated/gallery/*.ipynb"]
suppress_warnings = ["myst.header"]  # included texts begin at level 2

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "auto"  # notebooks without stored outputs are run
nb_execution_timeout = 300
nb_execution_raise_on_error = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # they are in the sections of parameters
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

if any((DOCS / "gallery").glob("plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "gallery",
        "gallery_dirs": "generated/gallery",
        "download_all_examples": False,
        "write_computation_times": False,
        "show_memory": False,
        "show_signature": False,
        "remove_config_comments": True,
        "abort_on_example_error": True,
        "within_subsection_order": "FileNameSortKey",
    }

html_theme = "pydata_sphinx_theme"
html_title = "idbandits"
html_baseurl = ""
html_context = {"default_mode": "auto"}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_use_index = False  # the search finds names, and the inventory has them
html_sidebars: dict[str, list[str]] = {"index": [], "changelog": [], "contributing": [], "licence": []}
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "collapse_navigation": True,
    "navigation_with_keys": False,
    "footer_start": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
linkcheck_timeout = 15
linkcheck_ignore = [r"http://127\.0\.0\.1.*"]
if "linkcheck" in sys.argv:
    try:
        socket.create_connection(("arxiv.org", 443), timeout=5).close()
    except OSError:
        linkcheck_ignore = [r".*"]  # no network: links to other sites are not checked
