"""Records: the results of a run, in a folder or in rows of the released tables."""
