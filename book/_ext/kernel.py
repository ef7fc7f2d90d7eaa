"""Run by the kernel of each page before its first cell (PYTHONSTARTUP, see the Snakefile)."""

import gc
import sys

gc.set_threshold(100_000)  # a page keeps most of what it makes: looking for garbage takes an eighth
sys.path.append(__file__.rpartition("/")[0])
__import__("panels").keep()  # no name of ours is left among those of the page
__import__("behind").keep()
__import__("plain").keep()
sys.path.pop()
# A page shows one release, whatever `calibkit collect` publishes while it runs.
__import__("calibkit_companion.records.tables", fromlist="hold").hold()
del gc, sys
