"""What pre-training fits: a classifier of the base classes, and the targets that it is given."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "Classifier",
    "direction_loss",
    "mixed_with_neighbours",
    "rotation_loss",
    "target_shares",
]


class Classifier(nn.Module):
    """A backbone with a linear layer for the base classes, and one that tells the four rotations.

    The rotation is read off the logits of the classes, so that they have to say more about an image
    than its class (Rajasegaran et al., "Self-supervised Knowledge Distillation for Few-shot
    Learning", 2020). A third layer tells the features of a teacher, if `teacher_width` says how
    many there are.
    """

    def __init__(
        self, backbone: nn.Module, feature_width: int, classes: int, teacher_width: int = 0
    ):
        super().__init__()
        self.backbone = backbone
        self.classes = nn.Linear(feature_width, classes)
        self.turns = nn.Linear(classes, 4)
        self.directions = nn.Linear(feature_width, teacher_width) if teacher_width else None

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Images -> logits of the classes and of the rotations, and the teacher's features.

        None of them is below float32.
        """
        features = self.backbone(images)
        with torch.autocast(images.device.type, enabled=False):
            features = features.to(self.classes.weight.dtype)
            logits = self.classes(features)
            directions = self.directions(features) if self.directions else None
            return logits, self.turns(logits), directions


def target_shares(
    labels: Tensor,
    classes: int,
    *,
    smoothing: float = 0.0,
    soft_labels: Tensor | None = None,
    soft_weight: float = 0.0,
) -> Tensor:
    """Labels (B,) -> what each class should get of an image, (B, classes).

    `soft_labels` (B, classes) get the weight `soft_weight`; of the sum, all classes get `smoothing`
    alike.
    """
    shares = F.one_hot(labels, classes).float()
    if soft_labels is not None:
        shares = torch.lerp(shares, soft_labels, soft_weight)
    return shares * (1 - smoothing) + smoothing / classes


def rotation_loss(turns: Tensor) -> Tensor:
    """Logits (4 B, 4) of the rotations of B images, as `four_rotations` orders them -> their loss.

    Each of the four outputs says yes or no for itself.
    """
    truth = torch.eye(4, device=turns.device).repeat_interleave(len(turns) // 4, dim=0)
    return F.binary_cross_entropy_with_logits(turns, truth)


def direction_loss(directions: Tensor, truth: Tensor) -> Tensor:
    """One minus the mean cosine between what was told (B, D) and the teacher's features (B, D)."""
    return 1 - F.cosine_similarity(directions, truth, dim=1).mean()


def mixed_with_neighbours(values: Tensor, share: float, views: int) -> Tensor:
    """Mixup: every row becomes `share` of itself and the rest of the row before it.

    Rows are those of `views` rotations one after the other, and mix within a rotation, so that what
    is mixed has one rotation.
    """
    per_view = values.view(views, -1, *values.shape[1:])
    return (share * per_view + (1 - share) * per_view.roll(1, 1)).flatten(0, 1)
