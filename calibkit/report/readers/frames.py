"""The types of pandas, which is slow to import and may be missing, and what is read of a table."""

from typing import TYPE_CHECKING, TypeAlias

from calibkit.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

DataFrame: TypeAlias = "pd.DataFrame"
Series: TypeAlias = "pd.Series"
Read: TypeAlias = tuple[dict[str, Array], set[str]]  # arrays by name, and the columns they are from
ReadRows: TypeAlias = tuple[dict[str, Array], set[str], Array]  # the same, and the rows to keep
