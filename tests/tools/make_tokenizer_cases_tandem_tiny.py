#!/usr/bin/env python3
"""Tokenizer cases for the bundled model, computed with the `tokenizers` library from its tokenizer.json.

    pip install tokenizers==0.23.*
    python make_tokenizer_cases_tandem_tiny.py [--model ../../models/tandem-tiny-v3] [--method ../../../shared/golden]

The strings and the forms of the cases are those of make_tokenizer_cases.py, which lies with the golden data. One file
holds both kinds: encoding cases {text, ids, ids_special?, decode_skip?, decode_keep?}, and detokenizing cases, which have
`deltas` or `text_keep`. Strings above 2,000 characters are left out to keep the file small.
"""
import argparse
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer

NAME = "tandem-tiny-v3"


def main():
    root = Path(__file__).resolve().parents[2]
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, default=root / "models" / NAME)
    ap.add_argument("--method", type=Path, default=root.parent / "shared" / "golden")
    ap.add_argument("--out", type=Path, default=root / "tests" / "golden" / "tokenizer_cases_tandem_tiny.jsonl")
    a = ap.parse_args()
    sys.path.insert(0, str(a.method))
    import make_tokenizer_cases as method

    t = Tokenizer.from_file(str(a.model / "tokenizer.json"))
    strings = [s for s in method.shared_strings(t) if len(s) <= 2000]
    rng = random.Random(5)
    n = method.write(a.out, (c for group in (
        method.cases(NAME, t, strings),
        method.detok_cases(NAME, t, method.detok_strings()),
        method.raw_id_cases(NAME, t, rng, 40)) for c in group))
    print(n, "cases,", a.out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
