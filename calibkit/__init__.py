"""Trustworthy confidence of neural classifiers: metrics, losses, training methods, post-hoc maps.

Each module is one noun and is imported by itself, so that ``from calibkit import metrics`` loads
NumPy and nothing heavier.
"""

__version__ = "0.1.0"
