"""The HTML page: sections of what was found, drawn in one file that works offline."""
