"""Commands about data sets: list, get, pack, unpack."""

from pathlib import Path

from calibkit_companion import data
from calibkit_companion.cli.options import print_table


def list_data(options) -> None:
    """List every data set.

    Print the source, licence and size of each data set, and where a copy lies.

    Example: calibkit data list
    """
    print_table([str(value) for value in row.values()] for row in data.listing())


def get_data(options) -> None:
    """Download or generate a data set.

    Use a copy that exists; otherwise download it. Then decode it and check that it loads.

    Example: calibkit data get cifar10
    """
    data.get(options.name)


def pack_data(options) -> None:
    """Write a data set of images as a few files, for a machine without a network.

    The files are mosaics, compressed without loss, and NAME.json with the labels and checksums.
    Copy them into one folder there, and unpack them.

    Example: calibkit data pack cifar10 --out packed
    """
    from calibkit_companion.data.pack import pack

    files = pack(options.name, Path(options.out))
    size = sum(file.stat().st_size for file in files)
    print(f"wrote {len(files)} files, {size / 1e6:.0f} MB; there: calibkit data unpack {files[-1]}")


def unpack_data(options) -> None:
    """Make the decoded copy of a packed data set; training then needs nothing else.

    Every file and every decoded array is checked against its checksum.

    Example: calibkit data unpack packed/cifar10.json
    """
    from calibkit_companion.data.pack import unpack

    print(f"decoded copy: {unpack(Path(options.file))}")
