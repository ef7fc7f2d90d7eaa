"""Helpers of the book's pages: setup of a notebook, findings, figures, boxes."""
