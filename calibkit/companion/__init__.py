"""The companion to the five papers: its plan, pages, claims and published numbers."""
