"""The share of each system's documents that are candidates of a reference (RepBERT, figure 2)."""

from __future__ import annotations

from telerank.evaluation.consistency import Reference, measure_consistency
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import ConsistencySpec
from telerank.experiments.published import depth_tables
from telerank.trec import read_run


def analyse_consistency(bench: Bench, spec: ConsistencySpec) -> AnalysisResult:
    """Compare each system with the first reference that is available."""
    from telerank.show.plots import line_plot

    name = next((name for name in spec.references if name in bench.systems), None)
    if name is None:
        raise Unavailable(f"no reference is available: {', '.join(spec.references)}")
    if len(bench.systems) < 2:
        raise Unavailable(f"there is no system to compare with the reference {name}")
    reference = Reference.of(read_run(bench.systems[name].runs[0]), spec.reference_depth)
    largest = max(map(len, reference.candidates.values()), default=0)
    measured = {
        system: measure_consistency(bench.rankings(system), reference, spec.depths)
        for system in bench.systems
        if system != name
    }
    curves = {system: consistency.values for system, consistency in measured.items()}
    caption = spec.title or f"Consistency factor with {name}"
    tables = depth_tables(curves, spec.depths, bench.published, caption=caption)
    notes = [
        f"The reference, {name} ({bench.systems[name].about}), has at most {largest:,} candidates per query."
    ]
    notes += [
        f"{system}: the reference lacks {len(lacking)} of {consistency.queries} queries: they count 0."
        for system, consistency in measured.items()
        if (lacking := consistency.unknown)
    ]
    record = {"depths": spec.depths, "reference": name, "largest": largest, "consistency": curves}
    record |= {"published": bench.published}
    plot = line_plot({"consistency factor": curves}, spec.depths)
    return AnalysisResult(tables, record, {"consistency": plot}, tuple(notes))
