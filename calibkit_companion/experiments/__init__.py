"""What is trained, and how: methods, runs, protocols, the plan of an edition, the five papers."""
