"""The types of pandas, which is slow to import and may be missing, and what is read of a table."""

from typing import TYPE_CHECKING, Any, TypeAlias

from calibkit.arrays import Array

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
    from pandas import Series as Series
else:
    DataFrame = Series = Any

Read: TypeAlias = tuple[dict[str, Array], set[str]]  # arrays by name, and the columns they are from
ReadRows: TypeAlias = tuple[dict[str, Array], set[str], Array]  # the same, and the rows to keep
