"""Every option of every command, once.

One frozen dataclass is a command's options, its configuration file and the record that is kept
with a result. The string beside a type is the option's `--help`. A field without a default is a
positional argument of the command. These files import nothing heavy, so help is instant.
"""

from unicorn_maml.settings.data import (
    DataPrepareSettings,
    DataShowSettings,
)
from unicorn_maml.settings.others import (
    BenchSettings,
    DemoSettings,
    ExportSettings,
    ModelsSettings,
    ResultsAddSettings,
    ResultsDifferenceSettings,
    ResultsRunSettings,
    ResultsTableSettings,
)
from unicorn_maml.settings.photos import (
    DEFAULT_MODEL,
    AppSettings,
    CheckSettings,
    PhotoSettings,
    PredictSettings,
)
from unicorn_maml.settings.studies import (
    STUDIES,
    AverageSettings,
    ChanceSettings,
    EnsembleSettings,
    FreezeSettings,
    HeatmapSettings,
    OneTaskSettings,
    PermutationsSettings,
    PermutedSettings,
    PoliciesSettings,
    ReportSettings,
    SelectionSettings,
    ShotsSettings,
    SlotsSettings,
    StepsSettings,
    StudySettings,
    TransferSettings,
)
from unicorn_maml.settings.testing import (
    CompareSettings,
    EvaluateSettings,
)
from unicorn_maml.settings.training import (
    AdaptationSettings,
    PretrainSettings,
    TrainSettings,
)
from unicorn_maml.settings.words import (
    Backbone,
    DataSetKind,
    Distance,
    HeadKind,
    MethodName,
    Normalization,
    Pooling,
    Precision,
    Remedy,
    Resampling,
    Split,
    to_json,
)

__all__ = [
    "DEFAULT_MODEL",
    "STUDIES",
    "AdaptationSettings",
    "AppSettings",
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
    "PermutedSettings",
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
    "ResultsDifferenceSettings",
    "ResultsRunSettings",
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
