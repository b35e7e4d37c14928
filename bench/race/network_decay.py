"""bench/run-network-decay: see there."""

import argparse
import gzip
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor


def read(path, skip):
    with gzip.open(path) as packed:
        return packed.read()[skip:]


def write(folder, stem, pixels, labels, rows):
    """IDX with pixels in 0 … 1 as floats, and the labels beside it."""
    floats = [struct.pack(">f", value / 255) for value in range(256)]
    with open(f"{folder}/{stem}-images", "wb") as file:
        file.write(struct.pack(">IIII", 0x0D03, len(rows), 28, 28))
        for row in rows:
            file.write(b"".join(floats[value] for value in pixels[784 * row:784 * (row + 1)]))
    with open(f"{folder}/{stem}-labels", "wb") as file:
        file.write(struct.pack(">II", 0x0801, len(rows)) + bytes(labels[row] for row in rows))


def run(options, folder, rows, seed, penalty, threads, further, label):
    """The result of one tuning, and its seconds."""
    name = f"{rows}-{seed}"
    output = f"{folder}/{name}-{label}.json"
    command = [options.program, "tune", f"{folder}/{name}-images", "--labels", f"{folder}/{name}-labels",
               "--validation", "0.5", "--test", f"{folder}/test-images", "--test-labels", f"{folder}/test-labels",
               "--model", "mlp", "--layers", options.layers, "--penalty", penalty, "--seed", str(seed), "--json", output,
               "--checkpoint", f"{folder}/{name}-{label}.ckpt", *further]
    begun = time.time()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if not os.path.exists(output):
        sys.exit(f"run-network-decay: {' '.join(command)}\n{done.stderr}")
    with open(output) as file:
        return json.load(file), time.time() - begun


def test_error(result):
    return 100 * (1 - result["test"]["accuracy"])


def hindsight(options, folder, rows, seed, log_lambda, threads):
    """Error and loss on the test of one single decay, whatever the rows that judge say of it."""
    further = [each for each in options.further if not each.startswith("--bounds=")]
    for flag in ("--bounds", "--grid", "--iterations", "--prior-width"):
        while flag in further:
            place = further.index(flag)
            del further[place:place + 2]
    further += [f"--bounds={log_lambda}:{log_lambda + 1e-6}", "--grid", "2", "--iterations", "0"]
    result, _ = run(options, folder, rows, seed, "global", threads, further, f"hindsight{log_lambda}")
    single = result["baseline"]["grid"]
    return {"rows": rows, "seed": seed, "log_lambda": log_lambda, "error": test_error(single),
            "loss": single["test"]["loss"]}


def tune(options, folder, rows, seed, penalty, threads):
    result, seconds = run(options, folder, rows, seed, penalty, threads, options.further, penalty)
    single, certificate = result["baseline"]["grid"], result["certificate"]
    found = {"rows": rows, "seed": seed, "penalty": penalty, "kind": result["choice"]["kind"],
             "penalties": len(result["penalties"]), "status": result["status"], "verdict": certificate["verdict"],
             "iterations": result["iterations"], "seconds": seconds,
             "grid": [point["log_lambda"] for point in single["points"]],
             "log_lambda": single["log_lambda"], "validation": [single["validation_loss"], result["validation_loss"]],
             "loss": [single["test"]["loss"], result["test"]["loss"]],
             "error": [test_error(single), test_error(result)]}
    print(f"{rows} rows, seed {seed}, {penalty}: error {found['error'][0]:.2f} → {found['error'][1]:.2f} %, loss "
          f"{found['loss'][0]:.4f} → {found['loss'][1]:.4f}, {found['status']}, {found['verdict']}, "
          f"{found['iterations']} steps, {found['seconds']:.0f} s", file=sys.stderr, flush=True)
    return found


def mean(values):
    """With its standard error."""
    centre = sum(values) / len(values)
    if len(values) < 2:
        return centre, math.nan
    spread = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
    return centre, math.sqrt(spread / len(values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rows", default="500,5000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--penalties", default="per-layer,per-feature,per-parameter")
    parser.add_argument("--layers", default="32")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output")
    parser.add_argument("--hindsight", action="store_true", help="also what each single decay of the grid does on the test")
    parser.add_argument("further", nargs="*", help="options of tune, after --")
    options = parser.parse_args()
    sizes = [int(size) for size in options.rows.split(",")]
    penalties = options.penalties.split(",")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        pixels = read(f"{options.data}/train-images-idx3-ubyte.gz", 16)
        labels = read(f"{options.data}/train-labels-idx1-ubyte.gz", 8)
        for rows in sizes:
            for seed in range(1, options.seeds + 1):
                write(folder, f"{rows}-{seed}", pixels, labels, random.Random(seed).sample(range(60000), 2 * rows))
        write(folder, "test", read(f"{options.data}/t10k-images-idx3-ubyte.gz", 16),
              read(f"{options.data}/t10k-labels-idx1-ubyte.gz", 8), range(10000))
        threads = max(1, (os.cpu_count() or 1) // options.jobs)
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(tune, options, folder, rows, seed, penalty, threads)
                    for rows in sizes for seed in range(1, options.seeds + 1) for penalty in penalties]
            results = [each.result() for each in runs]
            looked = []
            if options.hindsight:
                grids = {(each["rows"], each["seed"]): each["grid"] for each in results}
                looked = [each.result() for each in
                          [pool.submit(hindsight, options, folder, rows, seed, value, threads)
                           for (rows, seed), values in grids.items() for value in values]]
    if options.output:
        with open(options.output, "w") as file:
            json.dump({"tuned": results, "single": looked}, file, indent=1)
    print("| training rows | penalties | θ | test error, best single decay | tuned | difference | test loss, single | tuned "
          "| difference | lower error in | trusted | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for rows in sizes:
        for penalty in penalties:
            own = [each for each in results if each["rows"] == rows and each["penalty"] == penalty]
            cells = []
            for what, digits in (("error", 2), ("loss", 4)):
                for values in ([each[what][0] for each in own], [each[what][1] for each in own],
                               [each[what][1] - each[what][0] for each in own]):
                    centre, error = mean(values)
                    cells.append(f"{centre:.{digits}f} ± {error:.{digits}f}")
            better = sum(each["error"][1] < each["error"][0] for each in own)
            trusted = sum(each["verdict"] == "trusted" for each in own)
            print(f"| {rows} | {penalty} | {own[0]['penalties']} | {' | '.join(cells)} | {better} of {len(own)} "
                  f"| {trusted} of {len(own)} | {sum(each['seconds'] for each in own) / len(own):.0f} |")
        own = [each for each in looked if each["rows"] == rows]
        if own:
            least = [min((each[what] for each in own if each["seed"] == seed))
                     for what in ("error", "loss") for seed in sorted({each["seed"] for each in own})]
            half = len(least) // 2
            error, loss = mean(least[:half]), mean(least[half:])
            print(f"\n{rows} rows: the best single decay in hindsight, chosen by the test itself: error "
                  f"{error[0]:.2f} ± {error[1]:.2f} %, loss {loss[0]:.4f} ± {loss[1]:.4f}\n")


if __name__ == "__main__":
    main()
