"""What every notebook starts and ends with, and the figures of the companion."""
