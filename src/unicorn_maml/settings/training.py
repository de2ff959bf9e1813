"""Options of adaptation, pre-training and meta-training."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from unicorn_maml.checks import check_numbers, check_positive, check_shares, check_types, require
from unicorn_maml.errors import UsageError
from unicorn_maml.settings.words import (
    ADAPT,
    COMPILE,
    DEVICE,
    DROP,
    INNER_LR,
    NORMALIZATION,
    PRECISION,
    QUERY,
    SHOT,
    STEPS,
    WAY,
    Backbone,
    MethodName,
    Normalization,
    Pooling,
    Precision,
)

__all__ = ["AdaptationSettings", "PretrainSettings", "TrainSettings"]


@dataclass(frozen=True, kw_only=True)
class AdaptationSettings:
    """How a network adapts to a task (the inner loop)."""

    inner_steps: int = 5
    inner_lr: float = 0.1
    order: Literal[1, 2] = 1
    adapt: Literal["all", "head"] = "all"
    normalization: Normalization = "mixed"
    drop: bool = False  # let drop layers act
    precision: Precision = "float32"
    compile: bool = False  # the network, for a GPU

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"inner_steps": 0})
        check_positive(self, "inner_lr")

    @property
    def keeps_features(self) -> bool:
        """Whether an image has the same feature in every task.

        Only with `frozen`: under other policies the task's own images normalise the features. Drop
        layers that act change them at every step.
        """
        return self.adapt == "head" and self.normalization == "frozen" and not self.drop


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Meta-train a network so that a few steps of gradient descent fit it to a new task."""

    store: Annotated[str, "store folder, or `glyphs` (embedded; `glyphs-84x3` for 84x84 RGB)"] = (
        "glyphs"
    )
    out: Annotated[Path | None, "run folder  [default: runs/ and a name made of the settings]"] = (
        None
    )
    resume: Annotated[bool, "continue the run in --out from its last finished epoch"] = False
    init: Annotated[Path | None, "checkpoint whose backbone meta-training starts from"] = None
    match_statistics: Annotated[
        bool,
        "with --init: first make the backbone's running averages those of this store's base "
        "images, at the same function",
    ] = True
    method: Annotated[
        MethodName, "`maml` learns a head per slot, `unicorn` one vector for all slots"
    ] = "unicorn"
    backbone: Annotated[Backbone, "network that turns images into features"] = "convnet4"
    width: Annotated[int, "channels of ConvNet-4 (ResNet-12 has its own)"] = 64
    pooling: Annotated[Pooling, "how the last feature map becomes a vector"] = "average"
    way: Annotated[int, WAY] = 5
    shot: Annotated[int, SHOT] = 1
    query: Annotated[int, QUERY] = 15
    inner_steps: Annotated[int, STEPS] = 5
    inner_lr: Annotated[float, INNER_LR] = 0.1
    order: Annotated[Literal[1, 2], "1: first-order meta-gradients, 2: exact second-order ones"] = 1
    adapt: Annotated[Literal["all", "head"], ADAPT] = "all"
    normalization: Annotated[Normalization, NORMALIZATION] = "mixed"
    drop: Annotated[bool, DROP + "; not on validation tasks"] = False
    augment: Annotated[
        bool, "vary the images of base classes: crops shifted by 8 pixels, flips, colours"
    ] = False
    sum_slope: Annotated[
        float, "ResNet-12: slope of the leaky relu after a residual sum (0 in the official code)"
    ] = 0.1
    epochs: Annotated[int, "passes over --tasks-per-epoch tasks"] = 100
    tasks_per_epoch: Annotated[int, "meta-training tasks in an epoch"] = 100
    task_batch: Annotated[int, "tasks whose gradients make one update"] = 1
    outer_optimizer: Annotated[
        Literal["sgd", "adam"], "sgd (Nesterov) from a pre-trained backbone, adam from scratch"
    ] = "sgd"
    outer_lr: Annotated[
        float | None,
        "learning rate of the meta-parameters  [default: 0.002 for convnet4, 0.001 for resnet12]",
    ] = None
    head_lr_multiplier: Annotated[float, "the head's outer learning rate, times this"] = 1.0
    momentum: Annotated[float, "momentum of sgd"] = 0.9
    weight_decay: Annotated[float, "outer weight decay"] = 5e-4
    schedule: Annotated[Literal["step", "cosine", "constant"], "course of the outer rate"] = "step"
    decay_every: Annotated[int, "epochs between the drops of the step schedule"] = 20
    decay: Annotated[
        float | None, "factor of each drop  [default: 0.5 for convnet4, 0.1 for resnet12]"
    ] = None
    temperature: Annotated[float, "divides the query logits in the outer loss"] = 0.5
    average: Annotated[
        float, "keep a running average of the weights, this part of it old in each update (0: off)"
    ] = 0.0
    validation_tasks: Annotated[int, "meta-validation tasks"] = 200
    validate_every: Annotated[int, "epochs between validations"] = 1
    patience: Annotated[int, "stop after this many epochs without a better one (0: never)"] = 0
    seed: Annotated[int, "of the first weights and of the tasks"] = 0
    device: Annotated[str, DEVICE] = "auto"
    precision: Annotated[Precision, PRECISION] = "float32"
    compile: Annotated[bool, COMPILE] = False

    def __post_init__(self) -> None:
        check_types(self)
        # The paper's rates, which depend on the backbone.
        rate, decay = (0.002, 0.5) if self.backbone == "convnet4" else (0.001, 0.1)
        object.__setattr__(self, "outer_lr", rate if self.outer_lr is None else self.outer_lr)
        object.__setattr__(self, "decay", decay if self.decay is None else self.decay)
        counts = ["shot", "query", "width", "epochs", "tasks_per_epoch", "task_batch"]
        counts += ["decay_every", "validation_tasks", "validate_every"]
        check_numbers(self, at_least=dict.fromkeys(counts, 1))
        check_numbers(self, at_least={"way": 2, "patience": 0, "seed": 0, "weight_decay": 0})
        check_shares(self, "momentum", "sum_slope", "average")
        check_positive(self, "outer_lr", "decay", "temperature", "head_lr_multiplier")
        require(
            self.tasks_per_epoch % self.task_batch == 0,
            f"--tasks-per-epoch ({self.tasks_per_epoch}) must be a multiple of --task-batch "
            f"({self.task_batch}).",
        )
        _ = self.adaptation

    @property
    def folder(self) -> Path:
        """The run folder: --out, or a name made of the settings that tell most runs apart."""
        name = (
            f"{self.method}-{self.backbone}-{Path(self.store).name}-{self.way}way-{self.shot}shot"
        )
        return self.out or Path("runs") / f"{name}-seed{self.seed}"

    @property
    def adaptation(self) -> AdaptationSettings:
        """The inner loop's share of these settings."""
        names = [field.name for field in fields(AdaptationSettings)]
        return AdaptationSettings(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class PretrainSettings:
    """Train a backbone to tell all base classes apart, as a start for meta-training.

    After every few epochs it is judged by nearest centroid on one-shot validation tasks; the best
    one is kept.
    """

    store: Annotated[str, "store folder, or `glyphs`"] = "glyphs"
    out: Annotated[Path | None, "run folder  [default: runs/ and a name made of the settings]"] = (
        None
    )
    resume: Annotated[bool, "continue the run in --out from its last finished epoch"] = False
    init: Annotated[Path | None, "checkpoint whose backbone training starts from"] = None
    teacher: Annotated[
        Path | None, "checkpoint, of any backbone, whose nearest centroids give soft labels"
    ] = None
    teacher_weight: Annotated[float, "weight of the soft labels; the true ones get the rest"] = 0.5
    teacher_features: Annotated[
        float, "weight of the loss for telling the teacher's features, too, by cosine (0: off)"
    ] = 0.0
    backbone: Annotated[Backbone, "network that turns images into features"] = "convnet4"
    width: Annotated[int, "channels of ConvNet-4 (ResNet-12 has its own)"] = 64
    pooling: Annotated[Pooling, "how the last feature map becomes a vector"] = "average"
    epochs: Annotated[int, "passes over the images of the base classes"] = 100
    minutes: Annotated[
        float | None, "fit the whole schedule into this time instead of --epochs"
    ] = None
    batch_size: Annotated[int, "images of an update (each in four rotations with --rotation)"] = 128
    optimizer: Annotated[Literal["sgd", "adam"], "sgd is with Nesterov momentum"] = "sgd"
    lr: Annotated[float, "learning rate"] = 0.1
    momentum: Annotated[float, "momentum of sgd"] = 0.9
    weight_decay: Annotated[float, "weight decay"] = 5e-4
    schedule: Annotated[Literal["step", "cosine", "constant"], "course of the rate"] = "step"
    decay_at: Annotated[str, "shares of the training after which the rate drops"] = (
        "0.7,0.8,0.88,0.92,0.96"
    )
    decay: Annotated[float, "factor of each drop"] = 0.1
    crop: Annotated[
        Literal["resized", "padded", "none"], "random crops: of any size, shifted by 8 pixels, none"
    ] = "resized"
    smallest_crop: Annotated[float, "smallest share of the image in a resized crop"] = 0.08
    flip: Annotated[bool, "random horizontal flips"] = True
    jitter: Annotated[float, "strength of random brightness, contrast and saturation"] = 0.4
    label_smoothing: Annotated[float, "share of the target given to all classes alike"] = 0.0
    mixup: Annotated[float, "alpha of mixup (0: off)"] = 0.0
    rotation: Annotated[float, "weight of the rotation-prediction loss (0: off)"] = 0.0
    average: Annotated[
        float, "keep a running average of the weights, this part of it old in each update (0: off)"
    ] = 0.0
    select_way: Annotated[int, "ways of the validation tasks (0: all validation classes)"] = 0
    select_tasks: Annotated[int, "validation tasks"] = 200
    select_every: Annotated[int, "epochs between validations"] = 5
    seed: Annotated[int, "of the first weights, the order and the augmentation"] = 0
    device: Annotated[str, DEVICE] = "auto"
    precision: Annotated[Precision, PRECISION] = "float32"

    sum_slope: ClassVar[float] = 0.1
    # What `evaluate` takes where it is told nothing.
    way: ClassVar[int] = 5
    shot: ClassVar[int] = 1
    adaptation: ClassVar[AdaptationSettings] = AdaptationSettings(normalization="frozen")

    def __post_init__(self) -> None:
        check_types(self)
        counts = ["width", "epochs", "batch_size", "select_tasks", "select_every"]
        check_numbers(self, at_least=dict.fromkeys(counts, 1))
        weights = ["weight_decay", "mixup", "rotation", "teacher_features"]
        check_numbers(self, at_least=dict.fromkeys(["seed", *weights], 0))
        require(
            self.select_way == 0 or self.select_way >= 2, "--select-way must be 0 or at least 2."
        )
        check_shares(self, "momentum", "label_smoothing", "average")
        check_shares(self, "teacher_weight", "jitter", one=True)
        check_shares(self, "smallest_crop", zero=False, one=True)
        require(
            self.teacher is not None or self.teacher_features == 0,
            "--teacher-features needs a --teacher.",
        )
        check_positive(self, "lr", "decay", "minutes")
        _ = self.decay_shares

    @property
    def folder(self) -> Path:
        """The run folder: --out, or a name made of the settings that tell most runs apart."""
        name = f"pretrained-{self.backbone}-{Path(self.store).name}-seed{self.seed}"
        return self.out or Path("runs") / name

    @property
    def decay_shares(self) -> list[float]:
        """The points of the step schedule, as shares of the whole training."""
        try:
            shares = [float(share) for share in self.decay_at.split(",") if share]
        except ValueError:
            shares = [0.0]
        if not all(0 < share < 1 for share in shares):
            raise UsageError(f"--decay-at takes shares such as 0.7,0.9, not {self.decay_at!r}.")
        return shares
