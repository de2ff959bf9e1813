"""How processes of our own treat the machine."""

import os
import subprocess
import sys

import pytest

WAYS_TO_WAIT = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}


@pytest.mark.parametrize(
    ("wish", "spins"),
    [({}, "3000"), ({"OMP_WAIT_POLICY": "active"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")],
)
def test_threads_of_a_command_wait_asleep_unless_the_user_wants_another_way(wish, spins):
    script = (
        "import os, sys\n"
        "from unicorn_maml.__main__ import main\n"
        "sys.argv = ['unicorn-maml', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        # OpenMP reads it when torch loads it.
        "print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in WAYS_TO_WAIT}
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, **wish},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == f"{spins} False"
