"""The arrays that stand for the theory's search trees in the oracle are maps, in every version of them."""

import shutil
import subprocess
from pathlib import Path

import pytest

FLAT = Path(__file__).resolve().parents[2] / "proofs" / "flat.ml"
AGAINST_MAPS = """
module Tree = Map.Make (Int)
let () =
  Random.init 0;
  let versions = ref [| (Tree.empty, Flat.empty) |] in
  for step = 1 to 3000 do
    let count = Array.length !versions in
    let newest = if Random.bool () then count - 1 else Random.int count in
    let tree, flat = !versions.(newest) in
    let k = 1 + Random.int (if Random.int 50 = 0 then 500 else 20) in
    if Flat.find k flat <> Tree.find_opt k tree then exit 1;
    versions := Array.append !versions [| (Tree.add k step tree, Flat.add k step flat) |]
  done;
  let same (tree, flat) = for k = 1 to 600 do if Flat.find k flat <> Tree.find_opt k tree then exit 1 done in
  Array.iter same !versions
"""

pytestmark = pytest.mark.skipif(shutil.which("ocamlfind") is None, reason="OCaml is not on this machine")


def _agrees(flat: str, place: Path) -> bool:
    (place / "flat.ml").write_text(flat)
    (place / "against.ml").write_text(AGAINST_MAPS)
    build = ("ocamlfind", "ocamlopt", "-w", "-a", "flat.ml", "against.ml", "-o", "against")
    subprocess.run(build, cwd=place, check=True, capture_output=True)
    return subprocess.run(("./against",), cwd=place, check=False, capture_output=True).returncode == 0


def test_every_version_is_the_map_that_it_was(tmp_path):
    assert _agrees(FLAT.read_text(), tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("    a.(k) <- was;\n", ""),
        ("Older (k, a.(k), v)", "Older (k, was, v)"),
        ("v := Older (k, a.(k), next)", "v := Older (k, None, next)"),
        ("    v := Newest a;\n", ""),
        ("Some next\n", "Some v\n"),
    ],
)
def test_a_mistake_in_them_shows(right, wrong, tmp_path):
    source = FLAT.read_text()
    assert right in source

    assert not _agrees(source.replace(right, wrong), tmp_path)
