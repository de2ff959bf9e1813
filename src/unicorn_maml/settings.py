"""Every option of every command, once.

One frozen dataclass is a command's options, its configuration file and the record that is kept
with a result. The string beside a type is the option's `--help`. A field without a default is a
positional argument of the command. This file imports nothing heavy, so help is instant.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from unicorn_maml.checks import check_numbers, check_positive, check_types, require
from unicorn_maml.errors import UsageError

__all__ = [
    "DEFAULT_MODEL",
    "STUDIES",
    "AdaptationSettings",
    "AverageSettings",
    "Backbone",
    "BenchSettings",
    "ChanceSettings",
    "CheckSettings",
    "CompareSettings",
    "DataPrepareSettings",
    "DataSetKind",
    "DataShowSettings",
    "DemoSettings",
    "Distance",
    "EnsembleSettings",
    "EvaluateSettings",
    "ExportSettings",
    "FreezeSettings",
    "HeadKind",
    "HeatmapSettings",
    "MethodName",
    "ModelsSettings",
    "Normalization",
    "OneTaskSettings",
    "PermutationsSettings",
    "PhotoSettings",
    "PoliciesSettings",
    "Pooling",
    "Precision",
    "PredictSettings",
    "PretrainSettings",
    "Remedy",
    "ReportSettings",
    "Resampling",
    "ResultsAddSettings",
    "ResultsTableSettings",
    "SelectionSettings",
    "ShotsSettings",
    "SlotsSettings",
    "Split",
    "StepsSettings",
    "StudySettings",
    "TrainSettings",
    "TransferSettings",
    "to_json",
]

DEFAULT_MODEL = "miniimagenet-resnet12-pretrained"  # of `predict`, `check` and FewShotClassifier

Backbone = Literal["convnet4", "resnet12"]
MethodName = Literal["maml", "unicorn"]
HeadKind = Literal["per-slot", "shared", "zero", "average", "cosine", "euclidean"]
Normalization = Literal["batch", "support", "mixed", "frozen"]
Distance = Literal["cosine", "euclidean"]
Pooling = Literal["average", "flatten", "max"]
Precision = Literal["float32", "bfloat16"]
Remedy = Literal[
    "ensemble",
    "rotations",
    "initial-accuracy",
    "initial-loss",
    "updated-accuracy",
    "updated-loss",
]
Split = Literal["base", "validation", "novel"]
DataSetKind = Literal[
    "miniimagenet", "tieredimagenet", "cub", "omniglot", "cifar-fs", "fc100", "folder"
]
Resampling = Literal["bilinear", "bicubic", "lanczos", "box", "nearest"]


def to_json(settings: Any) -> dict[str, Any]:
    """Return a settings dataclass as plain JSON values."""
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _numbers(option: str, text: str) -> list[float]:
    """The numbers of a list such as `1,5,10`, ascending."""
    try:
        numbers = sorted({float(part) for part in text.split(",")})
    except ValueError:
        numbers = []
    require(
        bool(numbers) and all(0 < number < float("inf") for number in numbers),
        f"{option} takes positive numbers such as 1,5,10, not {text!r}.",
    )
    return numbers


def _counts(option: str, text: str) -> list[int]:
    """The whole numbers of a list such as `1,5,10`, ascending."""
    numbers = _numbers(option, text)
    require(
        all(number == int(number) for number in numbers),
        f"{option} takes whole numbers such as 1,5,10, not {text!r}.",
    )
    return [int(number) for number in numbers]


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
        check_positive("inner-lr", self.inner_lr)


_WAY = "classes in a task"
_SHOT = "support images per class"
_QUERY = "query images per class"
_STEPS = "gradient steps of the inner loop"
_INNER_LR = "learning rate of the inner loop (on the mean support loss)"
_ADAPT = "what adapts: `all` parameters, or the `head` alone on a frozen backbone"
_NORMALIZATION = (
    "batch-norm statistics of the query images: `batch` their own (sees all queries at once), "
    "`support` those of the support set, `mixed` running averages moved by the support passes "
    "(the paper's code, without its leak between tasks), `frozen` the trained ones"
)
_DEVICE = "auto, cpu, cuda or cuda:N"
_PRECISION = "arithmetic of the backbone; heads, losses and statistics are never below float32"
_DROP = "let dropout and DropBlock act during adaptation, as the official code does"
_COMPILE = "compile the network for the GPU: half a minute at the start, then up to a third faster"
_JSON = "write the result, with every setting, to this file"


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
    method: Annotated[
        MethodName, "`maml` learns a head per slot, `unicorn` one vector for all slots"
    ] = "unicorn"
    backbone: Annotated[Backbone, "network that turns images into features"] = "convnet4"
    width: Annotated[int, "channels of ConvNet-4 (ResNet-12 has its own)"] = 64
    pooling: Annotated[Pooling, "how the last feature map becomes a vector"] = "average"
    way: Annotated[int, _WAY] = 5
    shot: Annotated[int, _SHOT] = 1
    query: Annotated[int, _QUERY] = 15
    inner_steps: Annotated[int, _STEPS] = 5
    inner_lr: Annotated[float, _INNER_LR] = 0.1
    order: Annotated[Literal[1, 2], "1: first-order meta-gradients, 2: exact second-order ones"] = 1
    adapt: Annotated[Literal["all", "head"], _ADAPT] = "all"
    normalization: Annotated[Normalization, _NORMALIZATION] = "mixed"
    drop: Annotated[bool, _DROP] = False
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
    validation_tasks: Annotated[int, "meta-validation tasks"] = 200
    validate_every: Annotated[
        int, "epochs between validations; the run is saved with every one of them"
    ] = 1
    patience: Annotated[int, "stop after this many epochs without a better one (0: never)"] = 0
    seed: Annotated[int, "of the first weights and of the tasks"] = 0
    device: Annotated[str, _DEVICE] = "auto"
    precision: Annotated[Precision, _PRECISION] = "float32"
    compile: Annotated[bool, _COMPILE] = False

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
        require(0 <= self.momentum < 1, f"--momentum must be in 0..1, not {self.momentum}.")
        check_positive("outer-lr", self.outer_lr)
        check_positive("decay", self.decay)
        check_positive("temperature", self.temperature)
        require(0 <= self.sum_slope < 1, f"--sum-slope must be in 0..1, not {self.sum_slope}.")
        check_positive("head-lr-multiplier", self.head_lr_multiplier)
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
    device: Annotated[str, _DEVICE] = "auto"
    precision: Annotated[Precision, _PRECISION] = "float32"

    sum_slope: ClassVar[float] = 0.1
    # What `evaluate` takes where it is told nothing.
    way: ClassVar[int] = 5
    shot: ClassVar[int] = 1
    adaptation: ClassVar[AdaptationSettings] = AdaptationSettings(normalization="frozen")

    def __post_init__(self) -> None:
        check_types(self)
        counts = ["width", "epochs", "batch_size", "select_tasks", "select_every"]
        check_numbers(self, at_least=dict.fromkeys(counts, 1))
        check_numbers(self, at_least={"seed": 0, "weight_decay": 0, "mixup": 0, "rotation": 0})
        require(
            self.select_way == 0 or self.select_way >= 2, "--select-way must be 0 or at least 2."
        )
        require(0 <= self.momentum < 1, f"--momentum must be in 0..1, not {self.momentum}.")
        require(
            0 <= self.label_smoothing < 1,
            f"--label-smoothing must be in 0..1, not {self.label_smoothing}.",
        )
        require(0 <= self.average < 1, f"--average must be in 0..1, not {self.average}.")
        require(
            0 <= self.teacher_weight <= 1,
            f"--teacher-weight must be in 0..1, not {self.teacher_weight}.",
        )
        require(0 <= self.jitter <= 1, f"--jitter must be in 0..1, not {self.jitter}.")
        require(
            0 < self.smallest_crop <= 1,
            f"--smallest-crop must be in 0..1, not {self.smallest_crop}.",
        )
        check_positive("lr", self.lr)
        check_positive("decay", self.decay)
        check_positive("minutes", self.minutes)
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
            return [float(share) for share in self.decay_at.split(",") if share]
        except ValueError:
            raise UsageError(
                f"--decay-at takes shares such as 0.7,0.9, not {self.decay_at!r}."
            ) from None


_AS_TRAINED = "  [default: as trained]"


@dataclass(frozen=True, kw_only=True)
class _TestSettings:
    """What `evaluate` and `compare` have in common. `None` takes the checkpoint's own value."""

    store: Annotated[str | None, "store folder or embedded store" + _AS_TRAINED] = None
    split: Annotated[Split, "classes that the tasks are drawn from"] = "novel"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 1000
    way: Annotated[int | None, _WAY + _AS_TRAINED] = None
    shot: Annotated[int | None, _SHOT + _AS_TRAINED] = None
    query: Annotated[int, _QUERY] = 15
    inner_steps: Annotated[int | None, _STEPS + _AS_TRAINED] = None
    inner_lr: Annotated[float | None, _INNER_LR + _AS_TRAINED] = None
    adapt: Annotated[Literal["all", "head"] | None, _ADAPT + _AS_TRAINED] = None
    normalization: Annotated[Normalization | None, _NORMALIZATION + _AS_TRAINED] = None
    drop: Annotated[bool, _DROP] = False
    leak: Annotated[
        bool, "let running averages leak from task to task, as the official code does (`mixed`)"
    ] = False
    seed: Annotated[int, "of the tasks"] = 0
    device: Annotated[str, _DEVICE] = "auto"
    precision: Annotated[Precision, _PRECISION] = "float32"
    compile: Annotated[bool, _COMPILE] = False
    json: Annotated[Path | None, _JSON] = None
    resume: Annotated[bool, "continue the interrupted work for the --json file"] = False

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"tasks": 1, "way": 2, "shot": 1, "query": 1, "seed": 0})
        check_numbers(self, at_least={"inner_steps": 0})
        check_positive("inner-lr", self.inner_lr)
        require(
            not (self.leak and self.resume),
            "With --leak a task depends on all before it, so it cannot --resume.",
        )


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(_TestSettings):
    """Meta-test a checkpoint: mean accuracy over many tasks, with its 95% interval."""

    checkpoint: Annotated[Path, "checkpoint folder, or a run folder (its best checkpoint)"]
    head: Annotated[
        HeadKind | None,
        "head that every task starts from: `zero` and `average` work for any number of ways; "
        "`cosine` and `euclidean` adapt nothing and take the class of the nearest centroid"
        + _AS_TRAINED,
    ] = None
    remedy: Annotated[
        Remedy | None,
        "for a head with slots of its own: average the predictions of all permutations "
        "(`ensemble`) or of the N `rotations`, or select the permutation that is best by accuracy "
        "or loss on the support set, before (`initial`) or after adaptation (`updated`)",
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareSettings(_TestSettings):
    """Evaluate two checkpoints on identical tasks: the paired difference and its 95% interval."""

    first: Annotated[Path, "checkpoint or run folder"]
    second: Annotated[Path, "checkpoint or run folder to subtract from the first"]


@dataclass(frozen=True, kw_only=True)
class _OutputSettings:
    """What all studies have in common."""

    study: ClassVar[str]
    out: Annotated[
        Path | None, "folder for study.json and the figures  [default: runs/study- and its name]"
    ] = None
    json: Annotated[Path | None, "write study.json to this file, too"] = None

    @property
    def folder(self) -> Path:
        """The folder that the study is written into."""
        return self.out or Path("runs") / f"study-{self.study}"


@dataclass(frozen=True, kw_only=True)
class StudySettings(_OutputSettings, _TestSettings):
    """What the studies of trained networks have in common."""

    checkpoints: Annotated[
        list[Path],
        "checkpoint or run folders; all are tested on the same tasks, with store, ways and shots "
        "of the first one unless given",
    ]
    json: Annotated[Path | None, "write study.json to this file, too"] = None
    resume: Annotated[bool, "continue the interrupted study in --out"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.checkpoints), "Name at least one checkpoint or run folder.")


_SAMPLE = "draw this many permutations instead of trying all (needed for more than 5 ways)"


@dataclass(frozen=True, kw_only=True)
class PermutationsSettings(StudySettings):
    """How much the result of a task depends on which class gets which slot.

    Every task is solved under all N! assignments of its classes to slots. Two controls tell how
    much of the spread is noise: repeats of one permutation, and the best permutation by half of the
    query images scored on the other half.
    """

    study: ClassVar[str] = "permutations"
    tasks: Annotated[int, "number of tasks (the paper uses 2000)"] = 200
    sample: Annotated[int | None, _SAMPLE] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, at_least={"sample": 2, "query": 2})


@dataclass(frozen=True, kw_only=True)
class OneTaskSettings(StudySettings):
    """Follow every permutation of one task along the inner steps, on support and query images."""

    study: ClassVar[str] = "one-task"
    task: Annotated[int, "number of the task"] = 0
    tasks: ClassVar[int] = 1  # type: ignore[misc]  # not an option here
    sample: Annotated[int | None, _SAMPLE] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, at_least={"sample": 2, "task": 0})


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(StudySettings):
    """Choose one permutation per task by its accuracy or loss on the support set. Does it help?"""

    study: ClassVar[str] = "selection"
    tasks: Annotated[int, "number of tasks (the paper uses 2000)"] = 200


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(StudySettings):
    """Average the predictions of all permutations of a task, or of its N rotations."""

    study: ClassVar[str] = "ensemble"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200


@dataclass(frozen=True, kw_only=True)
class AverageSettings(StudySettings):
    """Start all slots of a trained head from their mean, or from zero, at meta-test."""

    study: ClassVar[str] = "average"


@dataclass(frozen=True, kw_only=True)
class StepsSettings(StudySettings):
    """Accuracy along the inner steps, on tasks of base and of novel classes."""

    study: ClassVar[str] = "steps"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200
    inner_steps: Annotated[int, "inner steps to follow"] = 30
    split: ClassVar[Split] = "novel"  # type: ignore[misc]  # and base: both are shown


@dataclass(frozen=True, kw_only=True)
class FreezeSettings(StudySettings):
    """Accuracy along the inner steps, with the backbone adapted or frozen."""

    study: ClassVar[str] = "freeze"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200
    inner_steps: Annotated[int, "inner steps to follow"] = 30
    adapt: ClassVar[Literal["all", "head"] | None] = None  # type: ignore[misc]  # both are shown


@dataclass(frozen=True, kw_only=True)
class ShotsSettings(StudySettings):
    """Accuracy with more and more support images per class."""

    study: ClassVar[str] = "shots"
    tasks: Annotated[int, "number of tasks (the paper uses 10000)"] = 200
    shots: Annotated[str, "support images per class to test, separated by commas"] = (
        "1,5,10,20,30,50"
    )
    shot: ClassVar[int | None] = None  # type: ignore[misc]  # --shots says it

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.shot_counts

    @property
    def shot_counts(self) -> list[int]:
        """The numbers of shots."""
        return _counts("--shots", self.shots)


@dataclass(frozen=True, kw_only=True)
class TransferSettings(StudySettings):
    """Train on one data set, test on another."""

    study: ClassVar[str] = "transfer"
    to: Annotated[str | None, "store folder of the other data set; needed"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.to is not None, "Name the store of the other data set, with --to STORE.")


@dataclass(frozen=True, kw_only=True)
class PoliciesSettings(StudySettings):
    """The four normalisation policies on the same tasks, with paired differences."""

    study: ClassVar[str] = "policies"
    normalization: ClassVar[Normalization | None] = None  # type: ignore[misc]  # all are shown


@dataclass(frozen=True, kw_only=True)
class SlotsSettings(StudySettings):
    """What a head knows before adaptation: which slot wins, how far the slots are apart.

    Also the norm of the head and of its meta-gradient, now and through meta-training, where the
    run's log is there.
    """

    study: ClassVar[str] = "slots"
    tasks: Annotated[int, "number of tasks, of novel classes and for the meta-gradient"] = 200


@dataclass(frozen=True, kw_only=True)
class ChanceSettings(_OutputSettings):
    """Why accuracy before adaptation is 1/N: permutations by fixed points, counted exactly."""

    study: ClassVar[str] = "chance"
    way: Annotated[int, _WAY] = 5

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"way": 2})
        require(self.way <= 100, f"--way must be at most 100, not {self.way}.")


@dataclass(frozen=True, kw_only=True)
class HeatmapSettings(_OutputSettings):
    """Meta-train and test over a grid of inner steps and inner learning rates.

    Every cell is a run of its own in the folder `cells`. A second call with the same --out goes on
    where the first one stopped.
    """

    study: ClassVar[str] = "heatmap"
    recipe: Annotated[
        Path, "how to train: a run folder, or a YAML or JSON file as for `train --config`"
    ]
    steps: Annotated[str, "inner steps, separated by commas"] = "1,5,10,15,20"
    rates: Annotated[str, "inner learning rates, separated by commas"] = "0.001,0.01,0.1,1"
    budget: Annotated[float, "share of the recipe's epochs that each cell is trained for"] = 1.0
    tasks: Annotated[int, "novel tasks that each cell is tested on"] = 200
    query: Annotated[int, _QUERY + " in these tasks"] = 15
    workers: Annotated[int, "cells that run at the same time, each in a process"] = 1
    device: Annotated[str, _DEVICE] = "auto"

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"tasks": 1, "query": 1, "workers": 1})
        require(0 < self.budget <= 1, f"--budget must be in 0..1, not {self.budget}.")
        _ = self.step_counts, self.learning_rates

    @property
    def step_counts(self) -> list[int]:
        """The numbers of inner steps."""
        return _counts("--steps", self.steps)

    @property
    def learning_rates(self) -> list[float]:
        """The inner learning rates."""
        return _numbers("--rates", self.rates)


STUDIES: list[type[_OutputSettings]] = [
    StepsSettings,
    FreezeSettings,
    PermutationsSettings,
    OneTaskSettings,
    SelectionSettings,
    EnsembleSettings,
    AverageSettings,
    ShotsSettings,
    TransferSettings,
    PoliciesSettings,
    SlotsSettings,
    ChanceSettings,
    HeatmapSettings,
]


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Put runs and studies into one page that opens without a network."""

    runs: Annotated[list[Path], "folders of studies and of training runs"]
    out: Annotated[Path, "the page"] = Path("report.html")
    title: Annotated[str, "heading of the page"] = "UNICORN-MAML report"

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.runs), "Name at least one folder of a study or of a training run.")


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """Meta-train MAML and UNICORN-MAML on drawn characters and compare them. Takes four minutes.

    A second demo with the same settings continues or shows the runs of the first.
    """

    out: Annotated[Path, "folder of the two runs"] = Path("runs/demo")
    epochs: Annotated[int, "epochs of 100 meta-training tasks"] = 16
    tasks: Annotated[int, "novel tasks that both are tested on"] = 1000
    permutation_tasks: Annotated[int, "tasks that are solved under all 120 label permutations"] = 10
    seed: Annotated[int, "of weights and tasks"] = 0
    device: Annotated[str, _DEVICE] = "auto"
    json: Annotated[Path | None, _JSON] = None

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"epochs": 1, "tasks": 1, "permutation_tasks": 1, "seed": 0})


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Measure how fast this machine adapts, evaluates and meta-trains, beside a plain loop.

    By default it measures the paper's settings on a GPU, and two small ones on a CPU. Any of the
    options from --backbone to --width measures one network of your own instead.
    """

    backbone: Annotated[Backbone | None, "network  [default: convnet4]"] = None
    method: Annotated[MethodName | None, "maml or unicorn  [default: unicorn]"] = None
    shot: Annotated[int | None, _SHOT + "  [default: 1]"] = None
    inner_steps: Annotated[int | None, _STEPS + "  [default: 5]"] = None
    size: Annotated[int | None, "side of the images  [default: 84]"] = None
    channels: Annotated[int | None, "channels of the images  [default: 3]"] = None
    width: Annotated[int | None, "channels of ConvNet-4  [default: 64]"] = None
    normalization: Annotated[
        Literal["batch", "mixed", "frozen"],
        "batch-norm statistics of the query images, as for `train`; the plain loop cannot do "
        "`support`",
    ] = "mixed"
    tasks: Annotated[
        int | None, "tasks of a batch at adaptation and evaluation  [default: 64, on a CPU 8]"
    ] = None
    task_batch: Annotated[int, "tasks whose gradients make one update of meta-training"] = 1
    repeats: Annotated[int, "measurements whose median is shown"] = 3
    device: Annotated[str, _DEVICE] = "auto"
    precision: Annotated[
        Precision | None, _PRECISION + "  [default: bfloat16, on a CPU float32]"
    ] = None
    compile: Annotated[bool, "compile the network, where that is possible"] = True
    json: Annotated[Path | None, _JSON] = None

    def __post_init__(self) -> None:
        check_types(self)
        counts = ["shot", "inner_steps", "size", "channels", "width"]
        counts += ["tasks", "task_batch", "repeats"]
        check_numbers(self, at_least=dict.fromkeys(counts, 1))


@dataclass(frozen=True, kw_only=True)
class DataPrepareSettings:
    """Build a store from folders and archives of images, without unpacking them to disk."""

    sources: Annotated[list[Path], "folders, zip, tar and npz archives that hold the data set"]
    dataset: Annotated[
        DataSetKind, "which data set it is; `folder` is any tree of class folders"
    ] = "folder"
    out: Annotated[Path | None, "store folder to make; needed  [a store in it is replaced]"] = None
    size: Annotated[
        int | None, "side of the images  [default: 84; omniglot 28; cifar-fs and fc100 32]"
    ] = None
    resample: Annotated[Resampling, "filter that makes images smaller or larger"] = "bilinear"
    on_error: Annotated[
        Literal["stop", "skip"], "bad files: `stop` and list them, or `skip` and leave them out"
    ] = "stop"
    crop_to_box: Annotated[bool, "cub: cut images to the annotated bounding box first"] = False
    rotations: Annotated[
        bool, "omniglot: images turned by 90, 180 and 270 degrees are classes of their own"
    ] = False
    channel_order: Annotated[
        Literal["bgr", "rgb"], "tieredimagenet as npz: order of the colours in the arrays"
    ] = "bgr"
    fractions: Annotated[
        str, "folder without split folders: shares of base, validation and novel classes"
    ] = "0.64,0.16,0.2"
    seed: Annotated[int, "folder without split folders: which classes go where"] = 0
    json: Annotated[Path | None, _JSON] = None

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.sources), "Name at least one folder or archive of images.")
        require(self.out is not None, "Say where the store is to be made, with --out FOLDER.")
        check_numbers(self, at_least={"size": 8, "seed": 0})
        require(self.size is None or self.size <= 1024, "--size must be at most 1024.")
        for option, wanted, kind in (
            ("crop-to-box", self.crop_to_box, "cub"),
            ("rotations", self.rotations, "omniglot"),
        ):
            require(not wanted or self.dataset == kind, f"--{option} is for --dataset {kind} only.")
        _ = self.split_fractions

    @property
    def store_folder(self) -> Path:
        """Where the store is made."""
        assert self.out is not None
        return self.out

    @property
    def split_fractions(self) -> tuple[float, float, float]:
        """Shares of base, validation and novel classes."""
        try:
            base, validation, novel = (float(part) for part in self.fractions.split(","))
        except ValueError:
            base = validation = novel = -1.0
        require(
            min(base, validation, novel) >= 0 and abs(base + validation + novel - 1) < 1e-6,
            "--fractions must be three numbers that add up to 1, such as 0.64,0.16,0.2, not "
            f"{self.fractions}.",
        )
        return base, validation, novel


@dataclass(frozen=True, kw_only=True)
class DataShowSettings:
    """Print what is in a store, check that its images are sound, and find duplicates."""

    store: Annotated[str, "store folder, or `glyphs`"]
    image: Annotated[Path | None, "write a PNG with sample images of some classes"] = None
    json: Annotated[Path | None, "write the description to this file"] = None


@dataclass(frozen=True, kw_only=True)
class ResultsAddSettings:
    """Keep a result of `evaluate` or `compare` as a small file, without per-task accuracies."""

    file: Annotated[Path, "what --json wrote"]
    row: Annotated[str, "row of the paper's tables, such as miniimagenet-resnet12-unicorn-1shot"]
    folder: Annotated[Path, "folder of the small files"] = Path("results")


@dataclass(frozen=True, kw_only=True)
class ResultsTableSettings:
    """Make a table of the paper's accuracies and of the results that were kept."""

    folder: Annotated[Path, "folder of the small files"] = Path("results")
    document: Annotated[Path | None, "put it into this document, between its marks"] = None


@dataclass(frozen=True, kw_only=True)
class ModelsSettings:
    """List the checkpoints that come with the project; every command takes them by name."""

    json: Annotated[Path | None, "write the list to this file"] = None


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """Write a small copy of a checkpoint to hand on: 8-bit weights, no folder names."""

    checkpoint: Annotated[Path, "checkpoint folder, or a run folder (its best checkpoint)"]
    out: Annotated[Path, "folder for the copy"] = Path("exported")


_OF_THE_MODEL = "  [default: the model's own]"


@dataclass(frozen=True, kw_only=True)
class PhotoSettings:
    """What all classifiers of photos have in common. `None` takes the model's own value."""

    model: Annotated[
        str, "checkpoint folder, name of a checkpoint that comes with the project, or timm/NAME"
    ] = DEFAULT_MODEL
    adapt: Annotated[
        Literal["auto", "all", "head"],
        _ADAPT + "; `auto` takes what suits the model, and the head where all would take longer "
        "than 20 seconds",
    ] = "auto"
    inner_steps: Annotated[int | None, _STEPS + _OF_THE_MODEL] = None
    inner_lr: Annotated[float | None, _INNER_LR + _OF_THE_MODEL] = None
    normalization: Annotated[
        Literal["support", "mixed", "frozen"] | None,
        "batch-norm statistics, as for `train`; not `batch`, under which the answer for a photo "
        "depends on the photos beside it" + _OF_THE_MODEL,
    ] = None
    device: Annotated[str, _DEVICE] = "auto"

    def __post_init__(self) -> None:
        check_types(self)
        check_numbers(self, at_least={"inner_steps": 0})
        check_positive("inner-lr", self.inner_lr)


_SUPPORT = "folder of labelled photos, one folder per class: PHOTOS/class/photo.jpg"


@dataclass(frozen=True, kw_only=True)
class PredictSettings(PhotoSettings):
    """Classify photos, by a few labelled ones or by a classifier that was saved."""

    support: Annotated[Path | None, _SUPPORT] = None
    classifier: Annotated[
        Path | None, "saved classifier to take instead of --support and a model"
    ] = None
    query: Annotated[Path | None, "photo, or folder of photos, to classify"] = None
    csv: Annotated[Path | None, "write the answers to this file"] = None
    save: Annotated[Path | None, "keep the adapted classifier in this folder"] = None
    threshold: Annotated[float, "say `unsure` where the best class is less probable than this"] = (
        0.0
    )
    copy_to: Annotated[
        Path | None, "new folder for copies of the photos, in one folder per class"
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            (self.support is None) != (self.classifier is None),
            "Give either --support FOLDER, with labelled photos, or --classifier FOLDER.",
        )
        require(
            self.query is not None or (self.save is not None and self.support is not None),
            "Give the photos to classify, with --query FOLDER.",
        )
        require(0 <= self.threshold <= 1, f"--threshold must be in 0..1, not {self.threshold}.")
        require(
            self.save is None or self.classifier is None,
            "--save goes with --support; the classifier in --classifier is saved already.",
        )


@dataclass(frozen=True, kw_only=True)
class CheckSettings(PhotoSettings):
    """Estimate how well a classifier made of these photos will do, from the photos themselves.

    Each photo is classified by a classifier that was adapted to the others (with more than 100
    photos, to nine tenths of them).
    """

    support: Annotated[Path | None, _SUPPORT + "; needed"] = None
    image: Annotated[Path | None, "write a PNG of which classes are taken for which"] = None
    json: Annotated[Path | None, _JSON] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.support is not None, "Name the folder of labelled photos with --support.")
