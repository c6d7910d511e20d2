"""How a page shows a setting: written into the field's `Annotated`, beside its range. Knows no widget library."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Control:
    """What the field itself does not say. Whatever is left out follows from its name, type, range and default."""

    label: str = ""
    least: float | None = None  # ends of a slider, where the field allows more
    most: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()  # labels of the values of a `Literal`, in their order
    lines: int = 1  # of a text
    placeholder: str = ""  # shown while a text is empty
    only_with: tuple[str, tuple[str, ...]] | None = None  # shown only while that other setting has one of these values
    rarely: bool = False  # shown among the settings that are rarely changed

    @classmethod
    def of(cls, field: FieldInfo) -> Control | None:
        """The field's own; None where it has none."""
        return next((item for item in field.metadata if isinstance(item, cls)), None)
