"""From the photos of a visit to answers and a classifier to take along."""

import zipfile

import pytest

from photos import photo, write_photos
from unicorn_maml import FewShotClassifier
from unicorn_maml.app.adapted import adapt
from unicorn_maml.app.example import draw_example
from unicorn_maml.app.uploads import labelled
from unicorn_maml.errors import UsageError
from unicorn_maml.settings import PhotoSettings

SMALL = PhotoSettings(model="miniimagenet-convnet4-pretrained", device="cpu")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return draw_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def visit(example):
    steps = []
    return adapt(labelled(list(example.classes.items())), SMALL, steps.append), steps


def test_the_example_is_learnt_and_its_other_photos_are_told_right(example, visit):
    adapted, steps = visit
    assert [step.number for step in steps] == list(range(adapted.classifier.inner_steps_ + 1))
    assert steps[0].accuracy < 0.5
    assert steps[0].probability == pytest.approx(1 / 3)
    assert steps[-1].accuracy == 1
    assert steps[-1].probability > 0.8
    answers = adapted.classify(example.queries)
    assert [answer.photo for answer in answers] == example.queries
    for answer in answers:
        wanted = answer.photo.parent.name
        assert max(answer.probabilities, key=answer.probabilities.get) == wanted
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.nearest_label == answer.nearest.parent.name == wanted


def test_the_example_is_small(example):
    paths = [path for some in [*example.classes.values(), example.queries] for path in some]
    assert sum(path.stat().st_size for path in paths) < 300_000


def test_a_support_photo_is_its_own_nearest_and_no_photos_get_no_answers(visit):
    adapted, _ = visit
    for path, answer in zip(
        adapted.support.paths, adapted.classify(adapted.support.paths), strict=True
    ):
        assert answer.nearest == path
    assert adapted.classify([]) == []


def test_the_zipped_classifier_answers_as_the_page_does(example, visit, tmp_path):
    adapted, _ = visit
    with zipfile.ZipFile(adapted.zipped(tmp_path / "made")) as archive:
        archive.extractall(tmp_path / "taken")
    loaded = FewShotClassifier.load(tmp_path / "taken" / "my-classifier", device="cpu")
    rows = loaded.predict_proba(example.queries)
    for answer, row in zip(adapted.classify(example.queries), rows, strict=True):
        assert list(answer.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-6)


def test_a_photo_in_two_classes_is_named_as_its_visitor_knows_it(tmp_path):
    folder = write_photos(tmp_path, 1, ["red", "blue"])
    photo("red", 0).save(folder / "blue" / "twin.jpg")
    classes = [(name, sorted((folder / name).iterdir())) for name in ("red", "blue")]
    with pytest.raises(UsageError, match=r"0\.jpg and twin\.jpg") as refused:
        adapt(labelled(classes), SMALL, lambda _: None)
    assert str(tmp_path) not in str(refused.value)
