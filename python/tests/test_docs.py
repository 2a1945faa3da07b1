"""Every block of Python on the pages about the package works, in order.

A block after `<!-- needs: MODULE -->` is left out if the module is not installed, unless EMBEDCTL_TEST_REQUIRE demands
the recipes.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import FIXTURES
from embedctl import find_embedctl_bin

DOCS = FIXTURES.parent / "docs"
MODEL = str(FIXTURES / "models" / "all-MiniLM-L6-v2")
SMALL = str(FIXTURES / "parity" / "bare-encoder" / "model")
BLOCK = re.compile(r"(?:<!-- needs: (\w+) -->\n)?```python\n(.*?)```", re.DOTALL)


def run(page: str, patch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Runs the blocks in an empty folder; returns the modules of the blocks that were left out."""
    patch.chdir(folder)
    patch.setenv("HF_HUB_OFFLINE", "1")
    names: dict[str, object] = {"__name__": "__main__"}
    left_out = []
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    for needed, text in blocks:
        if needed and importlib.util.find_spec(needed) is None:
            assert "recipes" not in os.environ.get("EMBEDCTL_TEST_REQUIRE", ""), f"{needed} is not installed"
            left_out.append(needed)
            continue
        script = text.replace('"sentence-transformers/all-MiniLM-L6-v2"', repr(MODEL))
        exec(compile(script, f"{page}: {needed or 'block'}", "exec"), names)
    return left_out


def test_the_page_on_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_out = run("python.md", monkeypatch, tmp_path)
    nearer, farther = (float(word) for word in re.findall(r"[-\d.]+", capsys.readouterr().out.splitlines()[0]))
    assert nearer > farther
    print("left out:", *left_out)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_job_array(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(.*?)```", (DOCS / "clusters.md").read_text(encoding="utf-8"), re.DOTALL)
    script = script.replace("/data", str(tmp_path)).replace("/shared/model", SMALL)
    (tmp_path / "dump").mkdir()
    (tmp_path / "vectors").mkdir()
    for number in range(3):
        with gzip.open(tmp_path / "dump" / f"part-{number}.jsonl.gz", "wt") as part:
            part.write(json.dumps({"text": f"part {number}"}) + "\n")
    path = os.path.dirname(find_embedctl_bin()) + os.pathsep + os.environ["PATH"]
    for job in range(2):
        array = {"SLURM_ARRAY_TASK_ID": str(job), "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_CPUS_PER_TASK": "1"}
        subprocess.run(["bash", "-euc", script], check=True, env={**os.environ, **array, "PATH": path})
    assert sorted(os.listdir(tmp_path / "vectors")) == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]


def test_the_page_on_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not {"spark", "ray"} & set(os.environ.get("EMBEDCTL_TEST_REQUIRE", "").split(",")):
        pytest.skip("run by .ci/test-clusters")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[1] pyspark-shell")
    run("clusters.md", monkeypatch, tmp_path)
    import ray
    from pyspark.sql import SparkSession

    SparkSession.active().stop()
    ray.shutdown()
