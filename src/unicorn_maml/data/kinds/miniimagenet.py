"""MiniImageNet: 100 ImageNet classes, 64 base, 16 validation and 20 novel ones.

Accepted: the images and `train.csv`, `val.csv`, `test.csv`, wherever they lie; or, without any
csv, images whose folder or file name begins with a WordNet number such as `n01532829`, for which
the published class lists are used.
"""

import re

from unicorn_maml.data.archives import Member, Sources
from unicorn_maml.data.class_lists import published_splits
from unicorn_maml.data.class_splits import list_by_class_names, list_by_csvs
from unicorn_maml.data.listing import Listing, images_of
from unicorn_maml.settings import DataPrepareSettings

__all__ = ["list_miniimagenet", "wordnet_number"]


def list_miniimagenet(sources: Sources, _: DataPrepareSettings) -> Listing:
    """List the images by split csvs, or else by WordNet numbers."""
    images = images_of(sources)
    by_csvs = list_by_csvs(sources, images)
    if by_csvs is not None:
        return by_csvs
    return list_by_class_names(sources, images, wordnet_number, published_splits("miniimagenet"))


def wordnet_number(image: Member) -> str | None:
    """Return the WordNet number of the nearest folder that has one, or of the file name."""
    for folder in reversed(image.parts[:-1]):
        if re.fullmatch(r"n\d{8}", folder):
            return folder
    match = re.match(r"n\d{8}", image.name)
    return match[0] if match else None
