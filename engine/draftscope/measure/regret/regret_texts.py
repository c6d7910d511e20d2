"""Texts for a question: are manuals written faster with deep narrow trees, and screenplays with wide shallow ones?

Imports no torch.
"""

from __future__ import annotations

from draftscope.base.prompts import Prompt

MANUAL = (
    "# tar\n\n> Archiving utility.\n> Often combined with a compression method, such as gzip.\n\n- [c]reate an archive "
    "from files:\n\n`tar",
    "# git commit\n\n> Commit files to the repository.\n\n- Commit staged files to the repository with a message:\n\n`",
    "Installation\n\n1. Switch off the pump and disconnect the power cable.\n2. Remove the four screws on the cover.\n"
    "3.",
)
SCREENPLAY = (
    "INT. HARBOUR OFFICE - NIGHT\n\nRain on the windows. MARTA reads a letter by a small lamp.\n\nJONAS\nYou knew?\n\n"
    "MARTA\n",
    "EXT. TRAIN STATION - DAY\n\nA crowd. LENA runs along the platform with a suitcase.\n\nLENA\nWait! Please, wait!"
    "\n\nCONDUCTOR\n",
    "Enter two WATCHMEN, with lanterns.\n\nFIRST WATCHMAN.\nWho goes there? Stand, and give the word.\n\n"
    "SECOND WATCHMAN.\n",
)


def asked() -> list[Prompt]:
    """Prompts of both kinds."""
    kinds = {"manual": MANUAL, "screenplay": SCREENPLAY}
    return [Prompt(kind, text) for kind, texts in kinds.items() for text in texts]
