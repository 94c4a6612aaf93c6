"""Reports of runs for people: tables, charts and HTML pages."""
