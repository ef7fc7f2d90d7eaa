"""What a run leaves: its record, as a folder or as rows of the released tables."""
