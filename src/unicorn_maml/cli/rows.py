"""`unicorn-maml results run`: rows of the paper's tables, from recipes to results to keep."""

from dataclasses import fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

from unicorn_maml.cli.consoles import console, notes
from unicorn_maml.configuration import read_configuration
from unicorn_maml.errors import DivergedError, FileError, StoppedError, UsageError
from unicorn_maml.files import check_can_write, read_object, write_json
from unicorn_maml.intervals import Interval
from unicorn_maml.names import name_of_run
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.reporting.results import add_result, published_rows, row_named
from unicorn_maml.settings import (
    EvaluateSettings,
    Normalization,
    ResultsRunSettings,
    TrainSettings,
)

__all__ = ["results_run"]

# Of methods, the first minus the second.
_PAIRS = (("unicorn", "maml"), ("maml", "maml5steps"), ("unicorn", "maml5steps"))


def results_run(settings: ResultsRunSettings) -> None:
    """Make rows, one after the other."""
    from unicorn_maml.training.checkpoint import load_checkpoint

    rows = _chosen(settings.rows)
    check_can_write(settings.folder / f"{rows[0]}.json")
    recipes = {row: _recipe(row, settings) for row in rows}  # first: what is missing is told now
    for backbone in {recipe.init for recipe in recipes.values() if recipe.init}:
        load_checkpoint(backbone)
    try:
        for row, recipe in recipes.items():
            _make(row, recipe, settings)
    except KeyboardInterrupt:
        raise StoppedError("Stopped; the same command goes on from there.") from None
    console.print(f"Next: unicorn-maml results table --folder {settings.folder}", soft_wrap=True)


def _chosen(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        if not any(fnmatchcase(row, pattern) for row in published_rows()):
            row_named(pattern)  # says which there are
    return [row for row in published_rows() if any(fnmatchcase(row, each) for each in patterns)]


def _recipe(row: str, settings: ResultsRunSettings) -> TrainSettings:
    """How the network of a row is trained."""
    from unicorn_maml.data.store import ImageStore
    from unicorn_maml.devices import can_compile, choose_device

    named = row_named(row)
    for data_set in {named.trained_on, named.tested_on}:
        folder = settings.stores / data_set
        if not folder.is_dir():
            raise UsageError(
                f"{row} needs the store {folder}; make it with `unicorn-maml data prepare`, or "
                "name the folder of your stores with --stores."
            )
        found = ImageStore.open(folder).data_set
        if found != data_set:
            raise UsageError(
                f"{row} needs a store of {data_set}, but {folder} is one of {found}; make it with "
                f"`unicorn-maml data prepare --dataset {data_set}`."
            )
    file = settings.recipes / f"{named.recipe}.yaml"
    values = read_configuration(file, {field.name for field in fields(TrainSettings)})
    values |= {"store": str(settings.stores / named.trained_on), "device": settings.device}
    recipe = TrainSettings(**values, out=settings.out / named.recipe)
    able = can_compile(choose_device(settings.device))
    return replace(recipe, compile=recipe.compile and able)  # rounding apart, the same


def _make(row: str, recipe: TrainSettings, settings: ResultsRunSettings) -> None:
    """Train the network of a row unless that is done, test it, and keep what it has."""
    from unicorn_maml.training.checkpoint import load_checkpoint
    from unicorn_maml.training.meta_train import meta_train

    with progress_bar(f"training {recipe.folder.name}", notes) as update:
        # A run that is finished ends at once, or says that its settings are others.
        meta_train(replace(recipe, resume=(recipe.folder / "config.json").is_file()), update)
    _forget_another_network(row, load_checkpoint(recipe.folder).weights_sha256, settings)
    for policy in settings.policies_or(recipe.normalization):
        result = _test(row, policy, recipe, settings)
        add_result(_file(row, policy, settings), row, settings.folder)
        if "diverged" in result:
            figure = "diverges"
        else:
            figure = f"{Interval(result['accuracy'], result['ci95'])} %"
        console.print(f"{row}, {policy}: {figure}, {result['tasks']} tasks", soft_wrap=True)
    own = recipe.normalization
    for policy in get_args(Normalization):
        if policy != own:
            what = f"{row}-{policy}-minus-{own}"
            _pair(what, _file(row, policy, settings), _file(row, own, settings), settings)
    method = row_named(row).method
    for first, second in _PAIRS:
        if method in (first, second):
            rows = (row.replace(f"-{method}-", f"-{each}-") for each in (first, second))
            one, other = (_file(each, own, settings) for each in rows)
            what = row.replace(f"-{method}-", "-") + f"-{first}-minus-{second}"
            _pair(what, one, other, settings)


def _forget_another_network(row: str, weights: str, settings: ResultsRunSettings) -> None:
    """Take away what is of a network that was here before: a row is of one network."""
    results = [
        folder / f"{row}.{policy}.json"
        for folder in (settings.out, settings.folder)
        for policy in get_args(Normalization)
    ]
    for file in results:
        if file.is_file() and read_object(file).get("weights_sha256") != weights:
            file.unlink()
    recipe = row_named(row).recipe
    for folder in (settings.out, settings.folder):
        for file in folder.glob("difference-*.json"):
            pair = read_object(file)
            sides = [pair[each] for each in ("first", "second") if isinstance(pair.get(each), dict)]
            of_this = [each for each in sides if name_of_run(each["checkpoint"]) == recipe]
            if any(each["weights_sha256"] != weights for each in of_this):
                file.unlink()


def _file(row: str, policy: str, settings: ResultsRunSettings) -> Path:
    """Where a result with every task is."""
    return settings.out / f"{row}.{policy}.json"


def _test(
    row: str, policy: Normalization, recipe: TrainSettings, settings: ResultsRunSettings
) -> dict[str, Any]:
    """Test the network of a row, or take what an earlier call has found of the same weights.

    That an inner loop diverges under a policy that it was not trained with is a result, too.
    """
    from unicorn_maml.evaluation.meta_test import prepare
    from unicorn_maml.evaluation.unfinished import (
        other_setting,
        run_all,
        take_up,
        unfinished_file,
        write_result,
    )
    from unicorn_maml.training.checkpoint import load_checkpoint

    named, file = row_named(row), _file(row, policy, settings)
    asked = EvaluateSettings(
        checkpoint=recipe.folder,
        store=str(settings.stores / named.tested_on),
        shot=named.shot,
        tasks=settings.tasks,
        normalization=policy,
        precision=recipe.precision,
        device=settings.device,
    )
    test = prepare(load_checkpoint(recipe.folder), asked)
    if file.is_file():
        earlier = read_object(file)
        if not other_setting(test.record, earlier) and earlier["tasks"] >= settings.tasks:
            return earlier
    begun = unfinished_file(file)
    if begun.exists():
        try:
            take_up([test], file)
        except (UsageError, FileError):  # of other weights, or damaged
            begun.unlink()
    with progress_bar(f"testing {row}, {policy}", notes) as update:
        try:
            run_all([test], file, update, resume=begun.exists())
            result = test.result()
        except DivergedError:
            result = test.diverged()
    write_result(file, result)
    return result


def _pair(what: str, first: Path, second: Path, settings: ResultsRunSettings) -> None:
    """Keep the paired difference of two results, once both are there."""
    from unicorn_maml.evaluation.results import of_the_same_tasks, paired

    if not (first.is_file() and second.is_file()):
        return
    one, other = read_object(first), read_object(second)
    if "diverged" not in one.keys() | other.keys() and of_the_same_tasks(one, other):
        file = settings.out / f"difference-{what}.json"
        write_json(file, paired(one, other))
        add_result(file, what, settings.folder)
