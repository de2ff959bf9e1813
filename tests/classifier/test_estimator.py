"""A classifier of photos keeps to scikit-learn's manners and to the inner loop's mathematics."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from photos import photo, photos
from unicorn_maml import FewShotClassifier
from unicorn_maml.adaptation.engine import adapt
from unicorn_maml.classifier.model import open_model
from unicorn_maml.classifier.network import normalised
from unicorn_maml.data.decode import Preprocessing
from unicorn_maml.data.photos import pixels_of_photos
from unicorn_maml.errors import DivergedError, FileError, UsageError
from unicorn_maml.settings import AdaptationSettings
from unicorn_maml.training.checkpoint import shipped_checkpoints

CONVNET = "miniimagenet-convnet4-pretrained"


def classifier(**options) -> FewShotClassifier:
    return FewShotClassifier(**{"model": CONVNET, "device": "cpu", **options})


@pytest.fixture(scope="module")
def fitted() -> FewShotClassifier:
    return classifier().fit(*photos(2))


def test_new_photos_get_the_label_of_photos_like_them(fitted):
    assert fitted.classes_.tolist() == ["blue", "green", "red"]
    queries = [photo(colour, number) for colour in ("red", "blue", "green") for number in (8, 9)]
    wanted = ["red", "red", "blue", "blue", "green", "green"]
    assert fitted.predict(queries).tolist() == wanted
    assert fitted.score(queries, wanted) == 1
    probabilities = fitted.predict_proba(queries)
    assert probabilities.shape == (6, 3)
    assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize("policy", ["frozen", "mixed", "support"])
@pytest.mark.parametrize("what", ["head", "all"])
def test_the_answer_is_that_of_the_inner_loop_under_every_policy(what, policy):
    images, labels = photos(2)
    queries = [photo("red", 7), photo("green", 7)]
    settings = AdaptationSettings(inner_steps=2, inner_lr=0.02, adapt=what, normalization=policy)
    model = open_model(CONVNET)

    def prepared(some):
        pixels = pixels_of_photos(some, model.preprocessing)
        return normalised(pixels, model.pixel_mean, model.pixel_std, torch.device("cpu"))[None]

    slots = torch.tensor([[["blue", "green", "red"].index(label) for label in labels]])
    with torch.no_grad():
        adapted = adapt(model.backbone, model.head(3), prepared(images), slots, settings)
        wanted = adapted.logits(prepared(queries))[0].softmax(-1)
    asked = {"adapt": what, "normalization": policy, "inner_steps": 2, "inner_lr": 0.02}
    found = classifier(**asked).fit(images, labels).predict_proba(queries)
    assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("policy", ["frozen", "support"])
def test_a_photo_gets_the_same_answer_whatever_is_beside_it(policy):
    made = classifier(adapt="all", normalization=policy, inner_steps=2, inner_lr=0.02)
    made.fit(*photos(2))
    queries = [photo("green", 5), *[photo("red", number) for number in range(20, 30)]]
    together = made.predict_proba(queries)
    alone = np.concatenate([made.predict_proba([each]) for each in queries])
    assert_allclose(together, alone, atol=1e-5)


def test_photos_may_be_paths_images_and_arrays_of_any_kind(fitted, tmp_path):
    image = photo("green", 3)
    pixels = np.asarray(image)
    image.save(tmp_path / "green.png")
    same = [image, pixels, pixels / 255, pixels.astype(np.float32) / 255]
    same += [str(tmp_path / "green.png"), tmp_path / "green.png"]
    answers = fitted.predict_proba(same)
    assert_allclose(answers, answers[:1].repeat(len(same), 0), atol=1e-6)
    grey = np.asarray(image.convert("L"))
    one, two = fitted.predict_proba([grey, grey[:, :, None]])
    assert_allclose(one, two, atol=1e-6)
    assert fitted.predict_proba([Image.new("RGB", (1, 1))]).shape == (1, 3)


def test_photos_are_prepared_as_data_prepare_does(tmp_path):
    upright = photo("blue", 1, size=(300, 200))
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    found = pixels_of_photos([tmp_path / "turned.png"], Preprocessing(84, 3, "bilinear"))[0]
    resized = np.asarray(upright.resize((138, 92), Image.Resampling.BILINEAR))
    assert np.array_equal(found, resized[4:88, 27:111])


def test_unequal_numbers_of_photos_down_to_one_are_fine():
    images, labels = photos(4)
    keep = [0, 4, 5, 8, 9, 10, 11]  # one red, two green, four blue
    made = classifier().fit([images[i] for i in keep], [labels[i] for i in keep])
    assert made.predict([photo("red", 30)]) == ["red"]


def test_labels_may_be_integers():
    images, labels = photos(1)
    made = classifier().fit(images, [len(label) for label in labels])
    assert made.classes_.tolist() == [3, 4, 5]
    assert made.predict(images).tolist() == [3, 5, 4]


def test_it_can_be_cloned_cross_validated_and_searched():
    images, labels = photos(3)
    original = classifier(inner_steps=10)
    assert clone(original).get_params() == original.get_params()
    assert original.set_params(inner_steps=20).inner_steps == 20
    assert cross_val_score(original, images, labels, cv=3).mean() == 1
    search = GridSearchCV(original, {"inner_steps": [0, 20]}, cv=3).fit(images, labels)
    assert search.best_params_ == {"inner_steps": 20}


@pytest.mark.parametrize(
    "grid",
    [
        {"inner_lr": np.logspace(-3, -1, 2)},
        {"inner_steps": np.arange(1, 3)},
        {"adapt": np.array(["head", "all"]), "inner_steps": [1], "inner_lr": [0.01]},
    ],
)
def test_a_grid_of_numpy_values_can_be_searched_and_its_best_saved(grid, tmp_path):
    images, labels = photos(2)
    search = GridSearchCV(classifier(), grid, cv=2, error_score="raise").fit(images, labels)
    best = search.best_estimator_
    assert all(type(best.get_params()[name]) is type(grid[name][0]) for name in grid)
    best.save(tmp_path / "best")
    loaded = FewShotClassifier.load(tmp_path / "best", device="cpu")
    assert {name: loaded.get_params()[name] for name in grid} == search.best_params_


def test_the_model_may_be_a_path_which_is_kept_as_given():
    folder = shipped_checkpoints()[CONVNET]
    made = classifier(model=folder).fit(*photos(1))
    assert made.get_params()["model"] is folder
    assert clone(made).get_params() == made.get_params()
    with pytest.raises(UsageError, match="--model must be str, not 3"):
        classifier(model=3).fit(*photos(1))


def test_without_a_rate_the_step_follows_the_scale_of_the_features(fitted):
    features = open_model(CONVNET).backbone.eval()
    images, _ = photos(2)
    model = open_model(CONVNET)
    pixels = pixels_of_photos(images, model.preprocessing)
    seen = normalised(pixels, model.pixel_mean, model.pixel_std, torch.device("cpu"))
    with torch.no_grad():
        norms = features(seen).square().sum(1)
    assert fitted.inner_lr_ * (float(norms.mean()) + 1) == pytest.approx(3)
    assert (fitted.adapt_, fitted.normalization_) == ("head", "frozen")


@pytest.mark.parametrize(
    "labels", [[0.5, 1.5], ["a", None], ["a", float("nan")], [1, "a"], None, [["a"], ["b"]]]
)
def test_labels_that_are_none_are_refused(labels):
    with pytest.raises(UsageError, match="abels"):
        classifier().fit(photos(1)[0][:2], labels)


def test_wrong_input_is_refused_in_one_sentence(tmp_path, fitted):
    images, labels = photos(2)
    with pytest.raises(UsageError, match="same label"):
        classifier().fit(images, ["a"] * 6)
    with pytest.raises(UsageError, match="6 photos but 5 labels"):
        classifier().fit(images, labels[:5])
    with pytest.raises(UsageError, match="in two classes"):
        classifier().fit([*images, images[0]], [*labels, "green"])
    with pytest.raises(NotFittedError):
        classifier().predict(images)
    with pytest.raises(UsageError, match="list of photos"):
        fitted.predict("one.jpg")
    with pytest.raises(UsageError, match="no photos"):
        fitted.predict([])
    (tmp_path / "film.jpg").write_text("not a picture")
    with pytest.raises(FileError, match=r"Photo 1 \(.*film.jpg\) cannot be decoded"):
        fitted.predict([images[0], tmp_path / "film.jpg"])
    with pytest.raises(UsageError, match="normalization"):
        classifier(normalization="batch").fit(images, labels)
    with pytest.raises(UsageError, match="adapt"):
        classifier(adapt="some").fit(images, labels)


def test_a_diverging_learning_rate_is_refused_in_one_sentence():
    images, _ = photos(2)
    labels = ["a", "b"] * 3  # no colour says which: else one huge step solves the task exactly
    with pytest.raises(DivergedError, match="smaller"):
        classifier(adapt="all", inner_lr=1e30, inner_steps=5).fit(images, labels)
    with pytest.raises(DivergedError, match="network is not finite after the inner loop"):
        classifier(adapt="all", inner_lr=1e25, inner_steps=2).fit(images, labels)  # the last step


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((3, 20, 20), np.uint8), "shape"),
        (np.zeros((0, 20, 3), np.uint8), "no pixels"),
        (np.full((20, 20), 2.0), "outside 0..1"),
        (np.full((20, 20), np.nan), "outside 0..1"),
        (np.zeros((20, 20), np.int64), "int64"),
        (np.zeros(20), "shape"),
    ],
)
def test_arrays_that_are_no_images_are_refused(fitted, array, reason):
    with pytest.raises(FileError, match=reason):
        fitted.predict([array])


@pytest.mark.parametrize("what", ["head", "all"])
@pytest.mark.parametrize("policy", ["frozen", "support"])
def test_watching_the_inner_steps_shows_how_the_answers_came_about(what, policy):
    images, labels = photos(2)
    options = {"adapt": what, "normalization": policy, "inner_steps": 3, "inner_lr": 0.005}
    seen = []
    watched = classifier(**options).fit(images, labels, on_step=lambda *step: seen.append(step))
    assert [number for number, _ in seen] == [0, 1, 2, 3]
    assert_allclose(seen[0][1], np.full((6, 3), 1 / 3))  # slots start alike
    assert_allclose(seen[3][1], watched.predict_proba(images), atol=1e-5)
    unwatched = classifier(**options).fit(images, labels)
    assert_allclose(watched.predict_proba(images), unwatched.predict_proba(images), atol=1e-6)
