"""What methods and backbones are called in tables and figures, and files of studies on disk."""

__all__ = ["BACKBONE_NAMES", "METHOD_NAMES", "STUDY_FILE", "STUDY_FORMAT"]

METHOD_NAMES = {"maml": "MAML", "unicorn": "UNICORN-MAML", "pretrained": "nearest centroid"}
BACKBONE_NAMES = {"convnet4": "ConvNet-4", "resnet12": "ResNet-12"}

STUDY_FILE = "study.json"
STUDY_FORMAT = "unicorn-maml study 1"
