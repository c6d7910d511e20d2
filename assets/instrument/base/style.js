// The look of the instrument: paper and ink, thin rules, one accent per fate. Colours come from assets/theme.json.

(function (D) {
  "use strict";

  const variables = (colours) => Object.entries(colours).map(([name, value]) => `--${name}: ${value};`).join(" ");

  D.css = () => `
:host { display: block; ${variables(D.theme.light)} --sans: ${D.theme.sans}; --mono: ${D.theme.mono};
  color: var(--ink); font: 13px/1.5 var(--sans); -webkit-font-smoothing: antialiased; text-rendering: optimizeLegibility; }
:host([data-theme="dark"]) { ${variables(D.theme.dark)} }
* { box-sizing: border-box; margin: 0; }
.ds { display: flex; flex-direction: column; gap: 14px; container-type: inline-size; outline: none; }
[hidden] { display: none !important; }
h2 { font: 500 25px/1.32 var(--sans); letter-spacing: -0.012em; text-wrap: pretty; min-height: 33px; }
h3 { font: 650 13.5px/1.4 var(--sans); letter-spacing: -0.003em; overflow-wrap: anywhere; }
p { margin: 0; }
b { font-weight: 650; color: var(--ink); }
.note, .foot, .unit, .legend, .sum, .stated, .readout-line, .scale-words, .scale-name { color: var(--muted); font-size: 12px; }
:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px; border-radius: 3px; }

.lead { display: flex; flex-direction: column; gap: 10px; padding: 4px 2px 6px; }
.meta { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: center; color: var(--muted); font-size: 12px; }
.badge { border: 1.5px solid var(--ink); color: var(--ink); border-radius: 99px; padding: 0 9px; font-weight: 600; line-height: 20px; white-space: nowrap; }
.badge.recorded { border-style: dashed; }
.badge.caveat { border-width: 1px; font-size: 11.5px; margin-right: 10px; display: inline-block; }
.message { border: 1px solid var(--rule); border-left: 3px solid var(--ink); background: var(--soft); border-radius: 6px; padding: 9px 12px; font-size: 13.5px; display: flex; gap: 12px; align-items: flex-start; }
.message p { flex: 1; overflow-wrap: anywhere; }
.message input { flex: 1; min-width: 0; font: 12.5px var(--mono); color: var(--ink); background: var(--card); border: 1px solid var(--rule); border-radius: 5px; padding: 4px 7px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 0; border-top: 1px solid var(--rule); padding-top: 12px; }
.figure { padding: 0 18px 0 0; min-height: 92px; display: flex; flex-direction: column; }
.figure dd { margin: 0; }
.figure .value { order: -1; }
.figure + .figure { border-left: 1px solid var(--rule); padding-left: 16px; }
.figure .value { font: 600 25px/1.15 var(--sans); font-variant-numeric: tabular-nums; letter-spacing: -0.02em; }
.figure .value.good { color: var(--accepted); }
.figure .label { font-weight: 600; font-size: 12.5px; }
.figure .detail { color: var(--muted); font-size: 11.5px; line-height: 1.4; }

.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 13px 15px; min-width: 0; }
.card-head { display: flex; justify-content: space-between; align-items: flex-start; gap: 6px 16px; }
.card-head.wrap { flex-wrap: wrap; }
.head-text { min-width: 0; }
.controls { display: flex; gap: 6px; align-items: center; flex-wrap: wrap; }
button, select { font: inherit; font-size: 12px; color: var(--ink); background: var(--card); border: 1px solid var(--rule); border-radius: 6px; cursor: pointer; }
button.small, select { padding: 0 10px; height: 27px; }
button.square { width: 30px; padding: 0; font-size: 10px; }
button:hover:not(:disabled), select:hover { border-color: var(--muted); }
button:disabled { color: var(--muted); opacity: 0.55; cursor: default; }
.stated { font-variant-numeric: tabular-nums; margin-right: 4px; }

.save { position: relative; width: auto; }
.save summary { list-style: none; width: 27px; height: 27px; line-height: 25px; text-align: center; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); }
.save summary::-webkit-details-marker { display: none; }
.save summary:hover { border-color: var(--muted); }
.save > div { position: absolute; right: 0; top: 31px; z-index: 2; display: flex; gap: 6px; padding: 6px; background: var(--card); border: 1px solid var(--rule); border-radius: 6px; }
.whole * { overflow: visible !important; max-height: none !important; }
.whole :is(.controls, .tabs, .save, details, input, select, button.small) { display: none !important; }
.whole.contest { height: auto !important; min-height: 0 !important; align-self: start; }

.lanes { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 14px; }
.lanes:has(> :nth-child(4)) { grid-template-columns: repeat(auto-fit, minmax(min(100%, max(340px, 40%)), 1fr)); }
.lane .card-head { align-items: baseline; }
.lane h3 { color: var(--ink); }
.rate-line { white-space: nowrap; }
.rate { font: 600 23px/1.1 var(--sans); letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.pane { height: 208px; overflow-y: auto; margin: 8px -5px 8px; padding: 0 5px; font: 13px/1.92 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; scrollbar-width: thin; scrollbar-color: var(--rule) transparent; }
.pane .prompt { color: var(--muted); }
.t { cursor: pointer; text-decoration-line: none; border-bottom: 0 solid transparent; padding-bottom: 1px; }
.t.accepted { border-bottom: 2px solid var(--accepted); }
.t.correction { border-bottom: 2px dashed var(--correction); }
.t.bonus { border-bottom: 4px double var(--bonus); padding-bottom: 0; }
.t:hover { background: var(--soft); }
.t.sel { background: var(--soft); box-shadow: 0 -1.5px 0 var(--ink), 0 3px 0 -1.5px var(--ink); }
.foot { font-variant-numeric: tabular-nums; }

.strip-frame { margin: 6px 0 0; border-radius: 4px; }
.strip canvas { display: block; cursor: pointer; }
.strip input[type=range] { display: block; height: 18px; margin: 0; accent-color: var(--ink); cursor: pointer; background: transparent; }
.readout-line { min-height: 18px; font-variant-numeric: tabular-nums; }

.pair { display: grid; grid-template: "round contest" auto "scale contest" 1fr / minmax(0, 1.45fr) minmax(0, 1fr); gap: 14px; }
.pair .tree { grid-area: round; display: flex; flex-direction: column; gap: 8px; }
.pair .scale { grid-area: scale; }
.pair .contest { grid-area: contest; display: flex; flex-direction: column; min-height: 100%; height: 0; }
.tree.blank .faces, .tree.blank .item-line, .tree.blank .legend { visibility: hidden; }
.stepper { gap: 6px; }
.joined { display: inline-flex; }
.joined button { border-radius: 0; margin-left: -1px; }
.joined button:first-child { border-radius: 6px 0 0 6px; margin-left: 0; }
.joined button:last-child { border-radius: 0 6px 6px 0; }
.joined button:hover:not(:disabled) { position: relative; }
.tree button.small[aria-pressed="true"], .unfold[aria-expanded="true"] { background: var(--ink); color: var(--card); border-color: var(--ink); }
.tools { justify-content: flex-end; margin-bottom: 4px; }
.tree-body { overflow: auto; display: flex; margin: 0 -6px; scrollbar-width: thin; scrollbar-color: var(--rule) transparent; }
.item-line { font-family: var(--mono); font-size: 11.5px; overflow-wrap: anywhere; min-height: 18px; }
.mask { display: flex; flex-direction: column; gap: 6px; }
.mask-frame { overflow: auto; border-radius: 4px; }
.mask canvas { display: block; cursor: pointer; }
.node-table, .table { overflow: auto; max-height: 400px; scrollbar-width: thin; scrollbar-color: var(--rule) transparent; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 12px 4px 2px; border-bottom: 1px solid var(--rule); font-size: 12px; font-weight: 400; white-space: nowrap; }
thead th { color: var(--muted); position: sticky; top: 0; background: var(--card); }
tr.sel { background: var(--soft); }
td, .sheet th[scope=row] { white-space: normal; }
button.link { border: 0; background: none; padding: 0; font: 12px var(--mono); text-decoration: underline; text-underline-offset: 3px; text-decoration-color: var(--rule); }
.tree-svg { margin: auto; flex: none; }
.tree-svg text { font: 12.5px var(--mono); fill: var(--ink); }
.tree-svg .pq { font-size: 11px; fill: var(--muted); white-space: pre; }
.edge { fill: none; stroke: var(--unjudged); stroke-width: 1.25; stroke-dasharray: 3 3; }
.edge.drafted { stroke: var(--muted); stroke-dasharray: none; }
.edge.accepted { stroke: var(--accepted); stroke-width: 3; stroke-dasharray: none; }
.edge.rejected { stroke: var(--rejected); stroke-width: 1.5; stroke-dasharray: none; }
.edge.correction { stroke: var(--correction); stroke-width: 2; stroke-dasharray: 7 4; }
.edge.bonus { stroke: var(--bonus); stroke-width: 3; stroke-dasharray: none; }
.edge.plain { stroke: var(--ink); stroke-width: 2; stroke-dasharray: none; }
.node { cursor: pointer; outline: none; }
.node .shape { fill: var(--card); stroke: var(--ink); stroke-width: 1.25; }
.node .halo { fill: none; stroke: none; }
.node.accepted .shape { stroke: var(--accepted); stroke-width: 2; }
.node.rejected .shape { stroke: var(--rejected); stroke-width: 2; }
.node.correction .shape { stroke: var(--correction); stroke-width: 2; }
.node.bonus .shape { stroke: var(--bonus); stroke-width: 2; }
.node.drafted .shape { stroke: var(--muted); stroke-width: 1.5; }
.node.unvisited .shape { stroke: var(--unjudged); stroke-width: 1; stroke-dasharray: 4 3; }
.node.never_accepted .shape { stroke: var(--unjudged); stroke-width: 1; stroke-dasharray: 1 3; fill: none; }
.node.unvisited text, .node.never_accepted text { fill: var(--unjudged); }
.node:hover .shape { fill: var(--soft); }
.node.lit .shape { fill: var(--soft); stroke-width: 3; }
.outline .row.lit { background: var(--soft); }
.node.sel .halo { stroke: var(--ink); stroke-width: 1.25; }
.node:focus-visible .halo { stroke: var(--ink); stroke-width: 2.5; }
.glyph.drafted { color: var(--muted); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; }
.glyph { font-weight: 700; }
.glyph.accepted, .verdict.accepted { color: var(--accepted); }
.glyph.rejected { color: var(--rejected); }
.glyph.correction { color: var(--correction); }
.glyph.bonus { color: var(--bonus); }

.outline { list-style: none; padding: 0; width: 100%; }
.outline .row { display: grid; grid-template-columns: 16px minmax(60px, auto) minmax(30px, 1fr) auto; gap: 8px; align-items: center; width: 100%; border: 0; background: none; padding: 6px 4px; text-align: left; border-radius: 4px; }
.outline .row.sel { box-shadow: inset 0 0 0 1.25px var(--ink); }
.outline .token { font: 12.5px var(--mono); white-space: nowrap; }
.outline .unvisited .token, .outline .pq { color: var(--muted); }
.outline .pq { font: 11px var(--mono); white-space: pre; text-align: right; grid-column: 4; }
.twin { display: flex; flex-direction: column; gap: 2px; }
.twin i { height: 4px; min-width: 1px; background: var(--ink); display: block; }
.twin .q { background: var(--draft); }

.tabs { display: flex; flex-wrap: wrap; gap: 5px; margin-top: 8px; }
.tabs:empty { display: none; }
.chip { font: 12px var(--mono); padding: 0 9px; height: 24px; border-radius: 99px; white-space: nowrap; }
.chip[aria-pressed="true"] { background: var(--ink); color: var(--card); border-color: var(--ink); }
.contest-body { flex: 1; overflow-y: auto; margin: 10px -6px 0; padding: 0 6px; display: flex; flex-direction: column; gap: 10px; scrollbar-width: thin; scrollbar-color: var(--rule) transparent; }
.bars { display: flex; flex-direction: column; gap: 5px; }
.bar-row { display: grid; grid-template-columns: 12px minmax(62px, 20%) minmax(40px, 1fr) auto; gap: 0 8px; align-items: center; }
.bar-row .token { font: 12px/1.35 var(--mono); text-align: right; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.bar-row.marked .token { font-weight: 700; }
.bar-row .pq { font: 11px/1.3 var(--mono); color: var(--muted); white-space: pre; min-width: 88px; }
.mark { font-size: 12px; line-height: 1.2; font-weight: 700; text-align: center; }
.mark.accepted { color: var(--accepted); } .mark.rejected { color: var(--rejected); }
.mark.correction { color: var(--correction); } .mark.bonus { color: var(--bonus); }
.bar { position: relative; height: 13px; }
.bar.beyond { border-right: 1.5px dashed var(--muted); }
.bar i { position: absolute; left: 0; top: 0; bottom: 0; }
.bar .ink { background: var(--ink); opacity: 0.82; }
.bar .draft { background: var(--draft); }
.bar .thin-q { top: auto; bottom: -3px; height: 3px; background: var(--draft); }
.min { background: color-mix(in srgb, var(--accepted) 68%, var(--card)); }
.over-q { background: repeating-linear-gradient(45deg, var(--rejected) 0 1.6px, transparent 1.6px 5px); box-shadow: inset 0 0 0 1px var(--rejected); }
.over-p { background: repeating-linear-gradient(-45deg, var(--correction) 0 1.6px, transparent 1.6px 5px); box-shadow: inset 0 0 0 1px var(--correction); }
.swatch { display: inline-block; width: 14px; height: 10px; margin-right: 5px; vertical-align: -1px; }
.swatch.ink { background: var(--ink); opacity: 0.82; } .swatch.thin-q { background: var(--draft); height: 3px; vertical-align: 2px; }
.coins { display: flex; flex-direction: column; gap: 3px; }
.coin-row { display: grid; grid-template-columns: 12px minmax(62px, 20%) minmax(40px, 1fr); gap: 1px 8px; align-items: center; text-align: left; border: 0; background: none; padding: 4px 0; border-radius: 4px; }
.coin-row.sel { background: var(--soft); box-shadow: 0 0 0 3px var(--soft); }
.coin-row .token { font: 12px var(--mono); text-align: right; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.coin-row .words { grid-column: 3; font-size: 11px; color: var(--muted); }
.coin-track { position: relative; height: 8px; background: var(--soft); box-shadow: inset 0 0 0 1px var(--rule); }
.coin-track .win { position: absolute; inset: 0 auto 0 0; background: color-mix(in srgb, var(--accepted) 68%, var(--card)); }
.coin-track .coin { position: absolute; top: -5px; bottom: -5px; width: 3px; margin-left: -1.5px; background: var(--rejected); }
.coin-row.accepted .coin-track .coin { background: var(--ink); }
.coin-row .verdict { font-weight: 700; color: var(--rejected); }
.coin-row.accepted .verdict { color: var(--accepted); }
.compare th[aria-sort] button { color: var(--muted); font-family: var(--sans); }
.compare th[aria-sort="ascending"] button, .compare th[aria-sort="descending"] button { color: var(--ink); font-weight: 650; }
.compare th .badge { margin: 0 8px; }
.compare button.link { text-align: left; white-space: normal; }
.fork { border-top: 1px solid var(--rule); margin-top: 10px; padding-top: 9px; display: flex; flex-direction: column; gap: 5px; }
.fork select { max-width: 190px; }
.whole .fork, .ds[data-scene] .fork { display: none; }
.pane .given { color: var(--muted); border-bottom: 1px dotted var(--muted); }
.pane .forced:not(:empty) { font-weight: 700; background: var(--soft); border-bottom: 2px solid var(--ink); }
.coin-row.waiting, .coin-row.compare { cursor: default; }
.coin-track .mass { position: absolute; inset: 0 auto 0 0; background: var(--ink); opacity: 0.82; }
.coin-track .needed { position: absolute; top: -5px; bottom: -5px; width: 0; border-left: 2px dashed var(--muted); }
.coin-row.waiting .verdict, .coin-row:not(.accepted):not(.rejected) .verdict { color: var(--muted); }
.twofold { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 360px), 1fr)); gap: 16px 36px; align-items: start; }
.reflip, .draw, .draws { display: flex; flex-direction: column; gap: 6px; }
.draws { gap: 8px; }
.reflip input { flex: 1 1 90px; min-width: 60px; accent-color: var(--ink); }
.trial b { font-size: 12.5px; }
.bar .wanted { background: color-mix(in srgb, var(--ink) 22%, var(--card)); box-shadow: inset 0 0 0 1px var(--muted); }
.bar .got { width: 3px; margin-left: -1.5px; top: -2px; bottom: -2px; background: var(--ink); }
.bar-row.far .token, .bar-row.far .pq { font-weight: 700; color: var(--ink); }
.outcome { font-size: 12.5px; overflow-wrap: anywhere; }

.scale-body { display: flex; flex-direction: column; gap: 9px; margin-top: 10px; }
.scale-row { display: grid; grid-template-columns: 108px minmax(0, 1fr); gap: 2px 10px; align-items: center; }
.scale-words { grid-column: 2; font-variant-numeric: tabular-nums; }
.scale-bar { display: flex; height: 22px; gap: 1.5px; min-width: 3px; }
.scale-bar > * { flex: 1 1 0; min-width: 0; overflow: hidden; font-style: normal; font-size: 11px; line-height: 22px; white-space: nowrap; border: 0; border-radius: 0; padding: 0; height: 22px; text-align: left; }
.scale-bar button:focus-visible { outline-offset: 1px; overflow: visible; }
.scale-bar span { padding: 0 7px; }
.scale-bar .draft { background: var(--draft); color: var(--card); }
.scale-bar .verify { background: color-mix(in srgb, var(--ink) 82%, var(--card)); color: var(--card); }
.scale-bar .other { background: var(--unjudged); }
.unfolds { display: flex; flex-direction: column; gap: 14px; }
.unfolds .card { display: flex; flex-direction: column; gap: 14px; }
kbd { font: 11.5px var(--mono); color: var(--ink); }
.unfold { height: 32px !important; padding: 0 14px !important; border-radius: 99px; font-size: 12.5px; font-weight: 600; }
.unfold::before { content: "+ "; } .unfold[aria-expanded="true"]::before { content: "− "; }
.sheet { display: flex; flex-direction: column; gap: 12px; }
h4 { font: 650 12.5px/1.4 var(--sans); margin-top: 6px; }
.block { display: flex; flex-direction: column; gap: 6px; }
.equation, .verdict-line { font-size: 15px; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.scale-bar .read { background: var(--rule); }
.rules { padding-left: 18px; }
a { color: var(--ink); }
code { font: 12px var(--mono); overflow-wrap: anywhere; }
tr.broken td, tr.broken th { color: var(--rejected); font-weight: 700; }
.formula { display: grid; grid-template-columns: minmax(0, 0.8fr) minmax(0, 1fr); gap: 14px 28px; border-top: 1px solid var(--rule); padding-top: 10px; }
.formula-face { display: contents; }
.formula-side { display: flex; flex-direction: column; gap: 8px; align-items: flex-start; }
.slider { display: grid; grid-template-columns: 1fr auto; gap: 0 10px; width: 100%; font-size: 12px; }
.slider input { grid-column: 1 / -1; width: 100%; margin: 2px 0 4px; accent-color: var(--ink); }
.slider output { font: 12px var(--mono); }
.curve { width: 100%; } .curve svg { display: block; width: 100%; height: auto; }
.curve text { font: 11px var(--sans); fill: var(--muted); }
.curve .told { fill: var(--ink); font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
.curve line { stroke: var(--rule); } .curve line.one { stroke: var(--muted); stroke-dasharray: 4 3; }
.curve polyline { fill: none; stroke: var(--ink); stroke-width: 1.5; } .curve circle.model { fill: var(--ink); }
.curve .chosen { fill: var(--card); stroke: var(--ink); stroke-width: 2; } .curve .real { stroke: var(--draft); stroke-width: 2.5; fill: none; }
summary { cursor: pointer; font-size: 12px; color: var(--muted); }
details { width: 100%; }
.empty { padding: 46px 10px; text-align: center; color: var(--muted); font-size: 14px; }

@container (max-width: 820px) {
  .pair { grid-template: "round" auto "contest" auto "scale" auto / minmax(0, 1fr); }
  .pair .contest { height: auto; min-height: 0; }
  .tree-body { height: auto; max-height: 460px; }
  .contest-body { max-height: none; overflow: visible; }
}
@container (max-width: 560px) {
  h2 { font-size: 20px; }
  .figures { grid-template-columns: 1fr; gap: 10px; }
  .figure, .figure + .figure { display: grid; grid-template-columns: 96px 1fr; column-gap: 12px; border-left: 0; padding: 0; min-height: 0; }
  .figure .value { font-size: 20px; grid-row: span 2; grid-column: 1; }
  .figure .label, .figure .detail { grid-column: 2; }
  .formula { grid-template-columns: minmax(0, 1fr); }
  .curve text { font-size: 18px; }
  .keys { display: none; }
  .scale-row { grid-template-columns: minmax(0, 1fr); }
  .scale-words { grid-column: 1; }
  .pane { height: 168px; }
  .card { padding: 12px; }
}
@media (prefers-contrast: more) { .card { border-color: var(--ink); } }
`;
})(window.Draftscope);
