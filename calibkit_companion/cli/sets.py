"""Commands about data sets: list, get, pack, unpack."""

from pathlib import Path

from calibkit_companion import data
from calibkit_companion.cli.options import print_table


def list_data(options) -> None:
    """List every data set.

    Print the source, licence and size of each data set, and the folder of a copy on this machine.

    Example: calibkit data list
    """
    print_table([str(value) for value in row.values()] for row in data.listing())


def get_data(options) -> None:
    """Download or generate a data set.

    A data set that is on this machine is not downloaded again. Decode it and check that it loads.

    Example: calibkit data get cifar10
    """
    data.get(options.name)


def pack_data(options) -> None:
    """Write a data set of images as a few files, for a machine without internet access.

    The files are mosaics of images, compressed without loss, and NAME.json with labels and
    checksums. Copy them into one folder of the other machine, and run calibkit data unpack there.

    Example: calibkit data pack cifar10 --out packed
    """
    from calibkit_companion.data.pack import pack

    files = pack(options.name, Path(options.out))
    size = sum(file.stat().st_size for file in files)
    print(f"wrote {len(files)} files, {size / 1e6:.0f} MB")
    print(f"on the other machine: calibkit data unpack {files[-1]}")


def unpack_data(options) -> None:
    """Decode a packed data set, so that training can use it.

    Every file and every decoded array is compared with its checksum. The packed files are not
    needed afterwards.

    Example: calibkit data unpack packed/cifar10.json
    """
    from calibkit_companion.data.pack import unpack

    print(f"decoded copy: {unpack(Path(options.file))}")
