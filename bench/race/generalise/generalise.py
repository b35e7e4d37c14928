"""Does `bilevel tune` win on rows that nobody saw? Called by bench/run-generalise, which sets things up.

For every case and split: training and test rows are drawn, the program tunes on the first and is tested on the second
(--test FILE), scikit-learn's tuners do the same. What counts is log(test loss) of the model that was chosen less that of the
best single λ of the program's own grid, paired over the splits.
"""

import argparse
import collections
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np
from sklearn.datasets import dump_svmlight_file

import cases
import losses
import peers
import tables


def write_rows(path, x, y, as_sparse):
    if as_sparse:
        dump_svmlight_file(x, y, str(path), zero_based=False)
    else:
        with path.open("wb") as out:
            np.save(out, np.column_stack([x, y]))


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tune(a, case, split, rows):
    """The program's answer on a split. Exit code 1 says "not trusted" and leaves a result all the same."""
    with tempfile.TemporaryDirectory(dir=a.work) as folder:
        folder = pathlib.Path(folder)
        train, test, result = folder / "train", folder / "test", folder / "result.json"
        write_rows(train, rows.train_x, rows.train_y, rows.sparse)
        write_rows(test, rows.test_x, rows.test_y, rows.sparse)
        command = [a.program, "tune", str(train), "--test", str(test), "--model", case.model, "--seed", str(split), "--json",
                   str(result), "--checkpoint", str(folder / "ckpt"), *shlex.split(a.options)]
        if rows.sparse:
            command += ["--features", str(rows.train_x.shape[1])]
        environment = os.environ | {"OMP_NUM_THREADS": str(a.threads), "OMP_WAIT_POLICY": "passive",
                                    "OPENBLAS_NUM_THREADS": str(a.threads)}
        begin, before = time.perf_counter(), processor_seconds()
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=a.run_limit)
        except subprocess.TimeoutExpired:
            return {"failed": f"more than {a.run_limit:g} s"}
        seconds = time.perf_counter() - begin
        try:
            r = json.loads(result.read_text())
            single, default = r["baseline"]["grid"], r["baseline"].get("default")
            return {"exit_code": done.returncode, "seconds": seconds, "processor_seconds": processor_seconds() - before,
                    "status": r.get("status"),
                    "test_loss": r["test"]["loss"], "single_test_loss": single["test"]["loss"],
                    "default_test_loss": default["test"]["loss"] if default else None,
                    "validation_loss": r["validation_loss"], "single_validation_loss": single["validation_loss"],
                    "choice": r.get("choice"), "penalty": r["model"].get("penalty")}
        except (OSError, KeyError, TypeError, json.JSONDecodeError) as failure:
            said = (done.stderr or done.stdout).strip().splitlines()
            return {"failed": f"exit code {done.returncode}, {type(failure).__name__}: {' / '.join(said[-3:])}"[:400]}


def one_split(a, case, split, kept):
    rows = cases.draw_split(case, split, a.data)
    answer = {"split": split, "features": rows.train_x.shape[1], "test_rows": len(rows.test_y), "set_rows": rows.set_rows,
              "floor": losses.floor(case.model, rows.test_y)}
    answer["tune"] = kept or (tune(a, case, split, rows) if a.program else {"failed": "not run"})
    answer["peers"] = {} if a.peers == "none" else peers.results(case, split, rows, a.cache, a.peers == "fit")
    return answer


def run(a, chosen, kept):
    """Every split of every case, `jobs` at a time; a line to standard error whenever a case is complete."""
    raw = {case.name: [] for case in chosen}
    begin = time.perf_counter()
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(a.jobs, mp_context=context) as pool:
        asked = {pool.submit(one_split, a, case, split, kept.get((case.name, split))): case
                 for case in chosen for split in range(a.splits)}
        for future in concurrent.futures.as_completed(asked):
            case = asked[future]
            raw[case.name].append(future.result())
            if len(raw[case.name]) == a.splits:
                raw[case.name].sort(key=lambda r: r["split"])
                summary = tables.summarise(case, raw[case.name])
                finished = sum(len(splits) == a.splits for splits in raw.values())
                print(f"[{finished}/{len(chosen)}, {time.perf_counter() - begin:.0f} s] {tables.line(summary)}", file=sys.stderr,
                      flush=True)
    return raw


def main():
    parser = argparse.ArgumentParser(prog="bench/run-generalise", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the program (default build/bin/bilevel); '' runs the peers only")
    parser.add_argument("--options", default="", help="further options of `bilevel tune`, e.g. \"--penalty auto\"")
    parser.add_argument("--cases", choices=["dev", "report", "all"], default="all",
                        help="which half of the sets; constants may be chosen on dev alone")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose name matches")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="splits at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each run of the program")
    parser.add_argument("--run-limit", type=float, default=300, metavar="SECONDS", help="for one run of the program")
    parser.add_argument("--peers", choices=["fit", "cached", "none"], default="fit",
                        help="fit: those that are not in the cache are fitted; cached: only what is there")
    parser.add_argument("--cache", type=pathlib.Path, help="folder of the peers' results (default build/generalise/peers)")
    parser.add_argument("--output", type=pathlib.Path, help="JSON; a markdown table of the same name with .md beside it")
    parser.add_argument("--from", dest="source", type=pathlib.Path, metavar="JSON", help="take the program's answers from a kept result, add peers, print again")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument("--default-program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.splits < 2 or a.jobs < 1:
        parser.error("--splits must be 2 or more, --jobs 1 or more")
    a.program = a.default_program if a.program is None else a.program
    if a.program and not a.list and not a.source and not os.access(a.program, os.X_OK):
        parser.error(f"{a.program} is not a program: build it first (./quickstart), or name one with --program")
    a.work.mkdir(parents=True, exist_ok=True)
    a.cache = (a.cache or a.work / "peers").resolve()
    source = json.loads(a.source.read_text()) if a.source else None
    if source:
        a.program, a.splits, a.options = "", source["splits"], source["options"]
    chosen = [case for case in cases.CASES if a.cases in ("all", case.half) and re.search(a.only, case.name)
              and (source is None or case.name in source["raw"])]
    if not chosen:
        parser.error(f"no case of {a.cases} matches --only {a.only!r}; --list prints them")
    if a.list:
        for case in chosen:
            print(f"{case.half:6s} {case.model:12s} {case.name}")
        return 0
    kept = {(name, s["split"]): s["tune"] for name, splits in source["raw"].items() for s in splits} if source else {}
    raw = run(a, chosen, kept)
    summaries = [tables.summarise(case, raw[case.name]) for case in chosen]
    print(tables.terminal(summaries))
    if a.output:
        result = {"options": a.options, "splits": a.splits, "totals": tables.totals(summaries),
                  "cases": [tables.as_json(s) for s in summaries], "raw": {case.name: raw[case.name] for case in chosen}}
        a.output.parent.mkdir(parents=True, exist_ok=True)
        peers.write_whole(a.output, json.dumps(result, indent=1))
        peers.write_whole(a.output.with_suffix(".md"), tables.markdown(summaries, a.options))
    failures = collections.Counter(s["tune"]["failed"] for splits in raw.values() for s in splits if "failed" in s["tune"])
    for why, times in failures.items():
        print(f"{times} runs failed: {why}", file=sys.stderr)
    return 1 if failures and a.program else 0


if __name__ == "__main__":
    sys.exit(main())
