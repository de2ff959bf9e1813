"""What methods, backbones and runs are called in tables, studies on disk, settings as options."""

__all__ = [
    "BACKBONE_NAMES",
    "METHOD_NAMES",
    "STUDY_FILE",
    "STUDY_FORMAT",
    "name_of_run",
    "option_name",
]

METHOD_NAMES = {"maml": "MAML", "unicorn": "UNICORN-MAML", "pretrained": "nearest centroid"}
BACKBONE_NAMES = {"convnet4": "ConvNet-4", "resnet12": "ResNet-12"}

STUDY_FILE = "study.json"
STUDY_FORMAT = "unicorn-maml study 1"


def name_of_run(checkpoint: str) -> str:
    """The last part of a checkpoint's path that says which run it is of."""
    return checkpoint.removesuffix("/best").removesuffix("/last").rsplit("/", 1)[-1]


def option_name(setting: str) -> str:
    """A setting's option, such as `--inner-lr`."""
    return f"--{setting.replace('_', '-')}"
