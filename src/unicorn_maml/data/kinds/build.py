"""The kinds of data sets by name."""

from collections.abc import Callable
from dataclasses import dataclass

from unicorn_maml.data.archives import Sources
from unicorn_maml.data.kinds.cifar import list_cifar
from unicorn_maml.data.kinds.cub import list_cub
from unicorn_maml.data.kinds.folder import list_folder
from unicorn_maml.data.kinds.miniimagenet import list_miniimagenet
from unicorn_maml.data.kinds.omniglot import list_omniglot
from unicorn_maml.data.kinds.tieredimagenet import list_tieredimagenet
from unicorn_maml.data.listing import Listing
from unicorn_maml.settings import DataPrepareSettings, DataSetKind

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True)
class Kind:
    """How a data set is listed, and what its images become."""

    list: Callable[[Sources, DataPrepareSettings], Listing]
    expects: str
    size: int = 84
    channels: int = 3
    whole: bool = False  # resized as a whole, nothing cut off


_CIFAR = Kind(list_cifar, "cifar-100-binary.tar.gz, or image folders such as apple", size=32)

KINDS: dict[DataSetKind, Kind] = {
    "miniimagenet": Kind(
        list_miniimagenet, "images such as n0153282900000005.jpg, and train.csv and so on"
    ),
    "tieredimagenet": Kind(
        list_tieredimagenet, "ImageNet folders such as n01530575, or train_images.npz and so on"
    ),
    "cub": Kind(list_cub, "images such as images/001.Black_footed_Albatross/....jpg"),
    "omniglot": Kind(
        list_omniglot,
        "images_background and images_evaluation, or an npz of 28x28 images",
        size=28,
        channels=1,
        whole=True,
    ),
    "cifar-fs": _CIFAR,
    "fc100": _CIFAR,
    "folder": Kind(list_folder, "images in class folders"),
}
