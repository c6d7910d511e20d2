"""Colours and fonts of the page, from assets/theme.json, which plots and instrument read too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import gradio as gr

from draftscope.base.assets import assets
from draftscope.trace.html import palette


def gradio_theme() -> gr.themes.Base:
    """Gradio's own components in our colours, and in system fonts, so that no font is downloaded."""
    light, dark = palette()["light"], palette()["dark"]
    sans = [name.strip(" '") for name in palette()["sans"].split(",")]
    mono = [name.strip(" '") for name in palette()["mono"].split(",")]
    theme = gr.themes.Base(
        primary_hue="neutral", neutral_hue="neutral", font=sans, font_mono=mono, radius_size="sm", text_size="sm"
    )
    both = {
        "body_background_fill": "page",
        "background_fill_primary": "card",
        "background_fill_secondary": "page",
        "block_background_fill": "page",
        "block_border_color": "rule",
        "block_label_background_fill": "page",
        "block_label_text_color": "muted",
        "block_title_text_color": "muted",
        "block_info_text_color": "muted",
        "body_text_color": "ink",
        "body_text_color_subdued": "muted",
        "border_color_primary": "rule",
        "border_color_accent": "muted",
        "input_background_fill": "card",
        "input_border_color": "rule",
        "input_border_color_focus": "ink",
        "input_placeholder_color": "muted",
        "color_accent_soft": "soft",
        "button_secondary_background_fill": "card",
        "button_secondary_background_fill_hover": "soft",
        "button_secondary_border_color": "rule",
        "button_secondary_text_color": "ink",
        "button_primary_background_fill": "ink",
        "button_primary_background_fill_hover": "muted",
        "button_primary_border_color": "ink",
        "button_primary_text_color": "card",
        "slider_color": "ink",
        "link_text_color": "ink",
        "loader_color": "ink",
    }
    values = {name: light[colour] for name, colour in both.items()}
    values |= {f"{name}_dark": dark[colour] for name, colour in both.items()}
    flat = {
        "block_shadow": "none",
        "block_border_width": "0px",
        "block_padding": "0px",
        "block_label_text_size": "12px",
    }
    return theme.set(
        **values, **flat, input_border_width="1px", button_border_width="1px", block_title_text_size="12px"
    )


def page_css(styles: Iterable[Path] = ()) -> str:
    """What Gradio's theme variables cannot express, as CSS, with the colours of both palettes: the core's, then those
    `styles` of doors and tasks."""

    def variables(name: str) -> str:
        return " ".join(f"--ds-{key}: {value};" for key, value in palette()[name].items())

    css = "\n".join(path.read_text(encoding="utf-8") for path in (assets() / "page.css", *styles))
    return f":root {{ {variables('light')} }}\n.dark {{ {variables('dark')} }}\n{css}"
