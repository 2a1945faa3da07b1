"""Every block of Python on the pages about the package works, in order.

A block after `<!-- needs: MODULE -->` is left out if the module is not installed, unless EMBEDCTL_TEST_REQUIRE demands
the recipes, or the databases. A block after `<!-- parsed: why -->` is not run.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import FIXTURES
from embedctl import find_embedctl_bin

DOCS = FIXTURES.parent / "docs"
MODEL = str(FIXTURES / "models" / "all-MiniLM-L6-v2")
SMALL = str(FIXTURES / "parity" / "bare-encoder" / "model")
#: Its comment (what it needs, or why it is only read), its language, its text.
BLOCK = re.compile(r"(?:<!-- (needs|parsed): ([^\n]+) -->\n)?```(python|sh)\n(.*?)```", re.DOTALL)


def run(page: str, patch: pytest.MonkeyPatch, folder: Path, required: str, shell: bool = False) -> list[str]:
    """Runs the blocks in an empty folder; returns the modules of the blocks that were left out."""
    patch.chdir(folder)
    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setenv("PATH", os.path.dirname(find_embedctl_bin()) + os.pathsep + os.environ["PATH"])
    patch.setenv("EMBEDCTL_MODEL", MODEL)
    names: dict[str, object] = {"__name__": "__main__"}
    left_out = []
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    for kind, needed, language, text in blocks:
        if kind == "parsed" or (language == "sh" and not shell):
            continue
        if kind and importlib.util.find_spec(needed) is None:
            assert required not in os.environ.get("EMBEDCTL_TEST_REQUIRE", "").split(","), f"{needed} is not installed"
            left_out.append(needed)
        elif language == "sh":
            script = re.sub("export EMBEDCTL_MODEL=.*", "", text)
            subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=True)
        else:
            script = text.replace('"sentence-transformers/all-MiniLM-L6-v2"', repr(MODEL))
            if needed == "duckdb_extension_vss":
                # DuckDB would fetch it from its own server.
                (extension,) = Path(next(iter(importlib.import_module(needed).__path__))).rglob("*.duckdb_extension")
                script = script.replace('"vss"', repr(str(extension)))
            if needed == "sqlite_vec" and not hasattr(sqlite3.Connection, "enable_load_extension"):
                # A Python that was built without SQLite's extensions.
                patch.setitem(sys.modules, "sqlite3", importlib.import_module("pysqlite3"))
            exec(compile(script, f"{page}: {needed or 'block'}", "exec"), names)
    return left_out


def test_the_page_on_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_out = run("python.md", monkeypatch, tmp_path, "recipes")
    nearer, farther = (float(word) for word in re.findall(r"[-\d.]+", capsys.readouterr().out.splitlines()[0]))
    assert nearer > farther
    print("left out:", *left_out)


def test_the_page_on_databases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not (shutil.which("bash") and shutil.which("jq")):
        assert "databases" not in os.environ.get("EMBEDCTL_TEST_REQUIRE", "").split(","), "bash or jq is not installed"
        pytest.skip("no bash or no jq here")
    left_out = run("databases.md", monkeypatch, tmp_path, "databases", shell=True)
    lines = [json.loads(line) for line in (tmp_path / "bulk.ndjson").read_text().splitlines()]
    actions, rows = lines[::2], lines[1::2]
    assert [action["index"] for action in actions] == [{"_index": "quotes", "_id": n} for n in range(1, 51)]
    assert all(row.keys() == {"text", "embedding"} and len(row["embedding"]) == 384 for row in rows)
    assert (tmp_path / "quotes.sql").read_text() == 'CREATE TABLE quotes ("id" bigint, "text" text, "embedding" vector(384));\n'
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
    run("clusters.md", monkeypatch, tmp_path, "recipes")
    import ray
    from pyspark.sql import SparkSession

    SparkSession.active().stop()
    ray.shutdown()
