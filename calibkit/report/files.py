"""Old name of `calibkit.report.readers`."""

from calibkit._moved import forward

forward(
    __name__,
    {"": "calibkit.report.readers calibkit.report.readers.content calibkit.report.readers.tables"},
)
