"""Everything that the tutorial tells its reader to do."""

import re
from pathlib import Path

from PIL import Image

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_every_command_of_the_tutorial_runs(cli, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = TUTORIAL.read_text()
    names: dict = {}
    done = []
    for language, code in re.findall(r"```(python|sh)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            exec(compile(code, "tutorial.md", "exec"), names)
            done.append(capsys.readouterr().out)
        else:
            exit_code, out, err = cli(code.strip().removeprefix("unicorn-maml "))
            assert exit_code == 0, err
            done.append(out)
    assert len(done) == 5
    drawn, checked, _, _, python = done
    assert not drawn
    assert "10 of 10 photos right" in checked
    assert "['leaf' 'flower']" in python
    assert len(list(tmp_path.glob("photos/*/*.jpg"))) == 10
    assert sorted(Path("sorted").glob("*/*.jpg"))
    assert {path.parent.name for path in Path("sorted").glob("leaf/leaf-*.jpg")} == {"leaf"}
    assert Image.open("confusion.png").size[0] > 200


def test_every_picture_of_the_tutorial_is_there():
    for name in re.findall(r"!\[.*?\]\((.*?)\)", TUTORIAL.read_text()):
        assert Image.open(TUTORIAL.parent / name).width > 100
