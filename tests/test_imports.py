"""Imports point one way, and the heavy libraries load only where they are needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import treet.errors

PACKAGE = Path(treet.errors.__file__).parent

# From the bottom up: a module may import from its own layer and from those before it. A package stands for
# all its modules, except those that are named themselves. The last one is the public API in __init__.py.
LAYERS = (
    ("errors",),
    ("checks", "files", "versions", "parallel", "progress"),
    ("lags", "data", "density.univariate"),
    ("windows", "readers", "writers", "processes", "datasets", "density.conditional"),
    ("series", "objectives", "reference", "nn"),
    ("training",),
    ("statistics",),
    ("results",),
    ("estimators",),
    ("density", "capacity", "network", "study", "statistics.significance"),
    ("plots", "scan_plot", "report", "density.plots"),
    ("api", "reproduce", "lag_scan"),
    ("demo",),
    ("cli",),
    ("",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Upward imports that stand inside a function, so that nothing is loaded before it is asked for.
LAZY = {
    ("results", "plots"): "a result draws itself: result.plot()",
    ("results", "report"): "a result writes its own page: result.to_html()",
    ("density.conditional", "density.plots"): "a density draws itself: density.plot()",
    ("density.result", "density.plots"): "a result draws itself: result.plot()",
    ("estimators.neural", "density.fitted"): "a fitted estimator gives densities: estimator.density()",
    ("capacity.result", "report.capacity"): "a result writes its own page: result.to_html()",
    ("density.result", "report.density"): "a result writes its own page: result.to_html()",
    ("capacity.picture", "plots"): "a capacity draws itself: result.plot()",
}


def _name(path: Path) -> str:
    """The module's name inside the package: "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def _level(module: str) -> int:
    """The layer of the module or of the nearest package around it that has one."""
    name = module
    while name and name not in LEVEL:
        name = name.rpartition(".")[0]
    if module and not name:
        raise AssertionError(f"{module} has no layer: name it in LAYERS.")
    return LEVEL[name]


def _imports(node: ast.AST, lazy: bool = False) -> Iterator[tuple[str, bool]]:
    """Every name of ours that is imported when the code runs, and whether inside a function."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, lazy) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: write the import with the package's full name"
        yield from ((f"{node.module}.{alias.name}", lazy) for alias in node.names)
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        children = iter(node.orelse)
    for child in children:
        yield from _imports(child, lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported_modules(source: str) -> set[tuple[str, bool]]:
    """The modules of the package that the source imports, and whether inside a function."""
    found = set()
    for name, lazy in _imports(ast.parse(source)):
        if name.split(".")[0] == "treet":
            inner = name.removeprefix("treet").removeprefix(".")
            is_module = inner in SOURCES or inner in LEVEL
            found.add((inner if is_module else inner.rpartition(".")[0], lazy))
    return found


def upward_imports(module: str, source: str) -> set[str]:
    """What the module imports from a higher layer without being allowed to."""
    level = _level(module)
    return {
        imported
        for imported, lazy in imported_modules(source)
        if _level(imported) > level and not (lazy and (module, imported) in LAZY)
    }


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_no_module_imports_from_a_higher_layer(module):
    assert upward_imports(module, SOURCES[module]) == set()


def test_no_modules_import_each_other_in_a_circle():
    graph = {
        module: {imported for imported, _ in imported_modules(source) if (module, imported) not in LAZY}
        for module, source in SOURCES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize(("module", "imported"), LAZY)
def test_every_lazy_exception_is_still_needed(module, imported):
    assert (imported, True) in imported_modules(SOURCES[module])


@pytest.mark.parametrize(
    ("module", "source", "upward"),
    [
        ("lags", "from treet.cli import main", {"cli"}),
        ("lags", "import treet.windows", {"windows"}),
        ("nn.attention", "def f():\n    from treet.training import fit", {"training"}),
        ("data", "try:\n    from treet import plots\nexcept ImportError:\n    pass", {"plots"}),
        ("data", "from treet import TransferEntropy", {""}),
        ("results", "from treet.plots import plot_result", {"plots"}),
        ("results", "def f():\n    from treet.plots import plot_result", set()),
        ("lags", "if TYPE_CHECKING:\n    import treet.data\nelse:\n    import treet.cli", {"cli"}),
        ("lags", "if not TYPE_CHECKING:\n    import treet.cli", {"cli"}),
        ("nn.attention", "from treet.nn.paper_critic import PaperCritic\nfrom treet.lags import Lags", set()),
    ],
)
def test_the_check_sees_upward_imports(module, source, upward):
    assert upward_imports(module, source) == upward


def test_a_new_module_must_be_given_a_layer():
    with pytest.raises(AssertionError, match="surprise has no layer"):
        upward_imports("surprise", "")


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [("treet.cli", {"torch", "matplotlib"}), ("treet", {"mne", "xarray", "pyarrow", "h5py"})],
)
def test_importing_loads_nothing_heavy(module, unwanted):
    command = [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert module in loaded
    assert unwanted.isdisjoint(loaded)
