"""What the splits of a case say, as a line of the terminal, a row of markdown, JSON, and totals."""

import collections

import compare
import peers

SIGNS = {"better": "+", "same": "=", "worse": "−"}
SHORT = {"RidgeCV": "Ridge", "LassoCV": "Lasso", "ElasticNetCV": "ElNet", "ARDRegression": "ARD", "BayesianRidge": "Bayes",
         "LogisticRegressionCV": "LogL2", "LogisticRegressionCV, L1": "LogL1"}


def chosen_kind(run):
    return (run.get("choice") or {}).get("kind") or run.get("penalty") or "?"


def gammas(runs):
    chosen = [run["choice"]["gamma"] for run in runs if chosen_kind(run) == "adaptive"]
    return sorted(gamma for gamma in chosen if gamma is not None)


def summarise(case, splits):
    done = [s for s in splits if "failed" not in s["tune"]]

    def against(one, other):
        first = splits[0]
        return compare.paired([one(s) for s in splits], [other(s) for s in splits], [s["floor"] for s in splits],
                              first["test_rows"], first["set_rows"])

    def chosen(s):
        return s["tune"].get("test_loss")

    def single(s):
        return s["tune"].get("single_test_loss")

    names = [name for name in peers.NAMES if any(name in s["peers"] for s in splits)]
    loss_of = {name: (lambda s, name=name: s["peers"].get(name, {}).get("loss")) for name in names}
    return {
        "case": case, "features": round(sum(s["features"] for s in splits) / len(splits)), "test_rows": splits[0]["test_rows"],
        "kinds": collections.Counter(chosen_kind(s["tune"]) for s in done), "runs": len(done),
        "gammas": gammas([s["tune"] for s in done]),
        "trusted": sum(s["tune"]["exit_code"] == 0 for s in done),
        "seconds": sum(s["tune"].get("processor_seconds", s["tune"]["seconds"]) for s in done) / len(done) if done else None,
        "single_loss": sum(map(single, done)) / len(done) if done else None,
        "difference": against(chosen, single),
        "default": against(lambda s: s["tune"].get("default_test_loss"), single),
        "peers": {name: {"against_single": against(loss_of[name], single), "chosen_against": against(chosen, loss_of[name]),
                         "why": next((s["peers"][name]["why"] for s in splits if "why" in s["peers"].get(name, {})), None)}
                  for name in names},
    }


def percent(difference):
    return f"{100 * difference.mean:+.1f} ± {100 * difference.error:.1f} %"


def kinds(summary):
    found = summary["gammas"]
    between = "" if not found else f" (γ {found[0]:.2g})" if found[0] == found[-1] else f" (γ {found[0]:.2g}–{found[-1]:.2g})"
    return ", ".join(f"{kind}{between if kind == 'adaptive' else ''} ×{times}" for kind, times in summary["kinds"].most_common())


def line(s):
    case, d = s["case"], s["difference"]
    head = f"{case.name:32s} {case.rows:5d} × {s['features']:<4d} {case.model:8s} "
    signs = " ".join(f"{SHORT[name]}{SIGNS[p['against_single'].verdict] if p['against_single'] else '?'}"
                     for name, p in s["peers"].items())
    if d is None:
        return f"{head}no run of the program   {signs}"
    return (f"{head}{percent(d):>18s} t {d.t:+6.1f} {d.verdict:6s} ({d.corrected_verdict:6s}) {s['trusted']:2d}/{s['runs']} trusted "
            f"{s['seconds']:5.1f} s  {signs}  [{kinds(s)}]")


def totals(summaries):
    result = {}
    for half in ("dev", "report", "all"):
        own = [s for s in summaries if half in ("all", s["case"].half) and s["difference"]]
        if not own:
            continue
        result[half] = {
            "cases": len(own), "chosen": compare.count(s["difference"].verdict for s in own),
            "chosen_corrected": compare.count(s["difference"].corrected_verdict for s in own),
            "default": compare.count(s["default"].verdict for s in own if s["default"]), "peers": {},
            "runs": sum(s["runs"] for s in own), "trusted": sum(s["trusted"] for s in own),
            "seconds": sum(s["seconds"] * s["runs"] for s in own),
        }
        for name in peers.NAMES:
            has = [s for s in own if name in s["peers"] and s["peers"][name]["against_single"]]
            if has:
                result[half]["peers"][name] = {
                    "cases": len(has),
                    "against_single": compare.count(s["peers"][name]["against_single"].verdict for s in has),
                    "chosen_on_the_same": compare.count(s["difference"].verdict for s in has),
                    "chosen_against": compare.count(s["peers"][name]["chosen_against"].verdict for s in has),
                }
    return result


def triple(counts):
    return f"{counts['better']} / {counts['same']} / {counts['worse']}"


def total_rows(all_totals):
    """(half, who, cases, against the best single λ, lead, chosen's lead on the same cases, chosen against the peer)"""
    for half, t in all_totals.items():
        yield half, "chosen", t["cases"], triple(t["chosen"]), compare.lead(t["chosen"]), "", ""
        yield (half, "chosen, corrected errors", t["cases"], triple(t["chosen_corrected"]), compare.lead(t["chosen_corrected"]), "",
               "")
        yield half, "λ = 1/n", t["cases"], triple(t["default"]), compare.lead(t["default"]), compare.lead(t["chosen"]), ""
        for name, p in t["peers"].items():
            yield (half, name, p["cases"], triple(p["against_single"]), compare.lead(p["against_single"]),
                   compare.lead(p["chosen_on_the_same"]), triple(p["chosen_against"]))


def terminal(summaries):
    lines = ["", "test loss of the model that was chosen against the best single λ: mean ± standard error of the paired differences of",
             "its logarithm over the splits, verdict by 2 errors and 0.1 % (in brackets: with errors corrected for splits that share",
             "rows); peers: + better, = no different, − worse than that single λ, ? no fit in time", ""]
    for half in ("dev", "report"):
        own = [s for s in summaries if s["case"].half == half]
        lines += [f"{half}:"] + [line(s) for s in own] + [""] if own else []
    found = totals(summaries)
    lines.append(f"{'half':7s} {'who':26s} {'cases':>5s}  {'better / same / worse':24s} {'wins − losses':>13s} {'chosen’s there':>14s}  "
                 "chosen against it")
    for half, who, number, counts, lead, ours, direct in total_rows(found):
        ours = f"{ours:+d}" if ours != "" else ""
        lines.append(f"{half:7s} {who:26s} {number:5d}  {counts:24s} {lead:+13d} {ours:>14s}  {direct}")
    for half, t in found.items():
        lines.append(f"{half}: {t['trusted']} of {t['runs']} runs ended trusted, {t['seconds']:.0f} s of processor time in all")
    return "\n".join(lines)


def cell(difference):
    if difference is None:
        return "–"
    text = f"{100 * difference.mean:+.1f} ± {100 * difference.error:.1f}"
    return f"**{text}**" if difference.verdict == "better" else f"*{text}*" if difference.verdict == "worse" else text


def markdown(summaries, options):
    names = [name for name in peers.NAMES if any(name in s["peers"] for s in summaries)]
    out = [f"`bilevel tune {options}`".replace(" `", "`") + ": test loss against the best single λ of its own grid, per cent, "
           "mean ± standard error of the paired differences of the logarithm; **bold** is better, *italic* worse (by more than 2 errors "
           "and 0.1 %); the peers against the same single λ.", "",
           "| case | n × p | model | chosen | chosen against single | corrected | " + " | ".join(names) + " |",
           "|---" * (6 + len(names)) + "|"]
    for half in ("dev", "report"):
        for s in summaries:
            if s["case"].half == half and s["difference"]:
                cells = [cell(s["peers"][name]["against_single"]) if name in s["peers"] else "" for name in names]
                out.append(f"| {half}: {s['case'].name} | {s['case'].rows} × {s['features']} | {s['case'].model} | {kinds(s)} | "
                           f"{cell(s['difference'])} | {s['difference'].corrected_verdict} | " + " | ".join(cells) + " |")
    out += ["", "| half | who | cases | better / no different / worse than single | wins − losses | chosen's on the same cases | chosen "
            "against it |", "|---|---|---|---|---|---|---|"]
    out += ["| " + " | ".join(map(str, row)) + " |" for row in total_rows(totals(summaries))]
    return "\n".join(out) + "\n"


def as_json(s):
    case = s["case"]

    def of(difference):
        return difference.as_json() if difference else None

    return {"case": case.name, "half": case.half, "set": case.set, "rows": case.rows, "features": s["features"],
            "test_rows": s["test_rows"], "model": case.model, "variant": case.variant, "kinds": dict(s["kinds"]), "gammas": s["gammas"], "runs": s["runs"],
            "trusted": s["trusted"], "seconds": s["seconds"], "single_loss": s["single_loss"], "difference": of(s["difference"]),
            "default": of(s["default"]),
            "peers": {name: {"against_single": of(p["against_single"]), "chosen_against": of(p["chosen_against"]), "why": p["why"]}
                      for name, p in s["peers"].items()}}
