"""The scripts of models/ that give an experiment, which `perigee train` and `perigee describe` take."""
import pathlib

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"


def experiments():
    """All but those of programs/, which train by themselves, and what is no Lua."""
    return sorted(script for script in MODELS.rglob("*.lua") if script.parent.name != "programs" and "runs" not in script.parts)
