"""The library's JSON reader against Python's, on documents damaged at random. Runs under AddressSanitizer."""

from __future__ import annotations

import json
import random
import subprocess

import pytest
from cuobject_driver import HERE, NATIVE, SANITIZERS, compile_program

SEEDS = [
    '{"logging": {"level": "INFO", "dir": "/var/log"}, "properties": {"rdma_dev_addr_list": ["10.0.0.1"]}}',
    '{"execution": {"parallel_io": false, "n": -1.5e+10}, "x": [0, null, true, [], {}, "a\\u00e9\\n\\"\\/"]}',
    '[1, 2.25, 1E5, "", {"a": {"a": [{"a": 0}]}}, "\\ud83d\\ude00"]',
    " 3 ",
]
ALPHABET = '{}[]:,"\\/ \t\n0123456789+-.eEnulltruefasbrt'


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    program = tmp_path_factory.mktemp("json") / "json_check"
    compile_program([HERE / "json_check.cpp", NATIVE / "json.cpp"], program, SANITIZERS["address"], [])

    def run(documents: list[str]) -> list[str]:
        text = "".join(document + "\0" for document in documents)
        done = subprocess.run([program], input=text, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    return run


def python_reads(text: str) -> tuple[bool, object]:
    def refuse(constant: str) -> object:
        raise ValueError(constant)  # NaN and Infinity are Python's own

    try:
        return True, json.loads(text, parse_constant=refuse)
    except ValueError:
        return False, None


def damage(text: str, rng: random.Random) -> str:
    characters = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(characters) + 1)
        match rng.randrange(3):
            case 0:
                characters.insert(at, rng.choice(ALPHABET))
            case 1:
                del characters[at : at + rng.randint(1, 4)]
            case _:
                characters[at : at + 1] = rng.choice(ALPHABET)
    return "".join(characters)


def test_it_reads_what_python_reads_and_refuses_what_python_refuses(read) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(1)
    documents = SEEDS + [damage(rng.choice(SEEDS), rng) for _ in range(4000)]
    # Comments are the reader's liberty, lone surrogates Python's.
    documents = [d for d in documents if "//" not in d and ("\\ud" not in d or d in SEEDS)]
    accepted = 0
    for document, line in zip(documents, read(documents), strict=True):
        good, value = python_reads(document)
        assert good == (not line.startswith("!")), (document, line)
        if good:
            accepted += 1
            assert json.loads(line) == value, document
    assert 200 < accepted < len(documents) - 200


def test_it_refuses_what_is_nested_too_deeply(read) -> None:  # type: ignore[no-untyped-def]
    shallow, deep = "[" * 60 + "]" * 60, "[" * 100000
    assert read([shallow, deep]) == [shallow, "!line 1: nested too deeply"]


@pytest.mark.parametrize(
    "document", ['"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\\u12g4"', '"\\u:000"', '"\x01"']
)
def test_it_refuses_strings_that_are_no_unicode(read, document: str) -> None:  # type: ignore[no-untyped-def]
    assert read([document])[0].startswith("!")
