"""Readers of the original files of data sets: archives, image folders, posts, generators.

A reader is a function of ``base``, the folder of the original files (None for generated data), and
``draft``, a folder in which it writes large arrays. It returns `Parts`. If a file is damaged or has
unexpected content, the reader raises an error that names the file. A pickle is opened only if its
checksum is the published one.
"""

# ruff: noqa: F401 (names for those who use the package)
from calibkit_companion.data.readers.archives import cifar, fashion_mnist, svhn
from calibkit_companion.data.readers.cifar10_tests import (
    CIFAR10_CLASSES,
    CIFAR10_MOMENTS,
    CIFAR10C_CORRUPTIONS,
    cifar10_1,
    cifar10_2,
    cifar10c,
    cifar10c_file,
)
from calibkit_companion.data.readers.generated import (
    GAUSSIAN_MEANS,
    MNIST1D_TEST,
    MNIST1D_TEST_SEED,
    digits,
    gaussian_samples,
    gaussians,
    mnist1d,
    mnist1d_signals,
)
from calibkit_companion.data.readers.imagenets import (
    IMAGENET_MOMENTS,
    IMAGENET_SIDE,
    imagenet,
    imagenet_v2,
    tiny_imagenet,
)
from calibkit_companion.data.readers.images import (
    decode_image,
    image_folder,
    in_folders,
    open_image,
    shuffled,
)
from calibkit_companion.data.readers.own_arrays import arrays
from calibkit_companion.data.readers.parts import DIGITS, Parts, moments
from calibkit_companion.data.readers.texts import LENGTH, VOCABULARY, newsgroups, tokens
