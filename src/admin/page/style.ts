/** The style of the status page: light and dark, for screens from 360 pixels. */
export const STATUS_STYLE = `
:root {
  color-scheme: light dark;
  --back: #f6f7f8; --card: #fff; --line: #dde1e5; --text: #1b2126; --soft: #58636d; --accent: #0b63a8;
  --good: #17723b; --bad: #b42318; --warn: #8a5300; --code: #f1f3f5; --warn-back: #fff4de; --bad-back: #fdecea;
  --one: #0b63a8; --two: #c2410c; --three: #17723b; --grid: #e8ebee;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12161a; --card: #1a2026; --line: #2e373f; --text: #e4e8ec; --soft: #9aa6b1; --accent: #6cb6f5;
  --good: #57c785; --bad: #ff8578; --warn: #eab35b; --code: #12161a; --warn-back: #33280f; --bad-back: #3a1a17;
    --one: #6cb6f5; --two: #ff9d5c; --three: #57c785; --grid: #262e35;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; overflow-wrap: break-word; hyphens: none; }
header, main, footer { max-width: 1280px; margin: 0 auto; padding: 0 16px; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 16px; padding-top: 16px; padding-bottom: 12px; }
h1 { font-size: 20px; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 14px; margin: 0; }
main { display: grid; gap: 16px; grid-template-columns: minmax(0, 1fr); outline: none; }
section { min-width: 0; }
footer { color: var(--soft); padding-top: 8px; padding-bottom: 24px; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.unseen { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: 8px; top: -60px; background: var(--card); padding: 8px; z-index: 1; }
.skip:focus { top: 8px; }
.state { margin: 0; padding: 1px 10px; border-radius: 10px; border: 1px solid currentColor; color: var(--soft); font-weight: 600; font-size: 12px; }
.state[data-state="ready"] { color: var(--good); }
.state[data-state="draining"] { color: var(--warn); }
.state[data-state="observe"] { color: var(--back); background: var(--warn); border-color: var(--warn); }
.state[data-state="lost"] { color: var(--bad); }
.facts { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 0; color: var(--soft); min-width: 0; }
.facts div { display: flex; gap: 6px; min-width: 0; }
.facts dt::after { content: ":"; }
.facts dt { white-space: nowrap; }
.facts dd { margin: 0; color: var(--text); min-width: 0; }
.banners { display: grid; gap: 8px; }
.banners:not(:has(> :not([hidden]))) { display: none; }
.banner { padding: 10px 14px; border: 1px solid; border-left-width: 6px; border-radius: 6px; }
.banner.warning { border-color: var(--warn); background: var(--warn-back); }
.banner.bad { border-color: var(--bad); background: var(--bad-back); }
.banner p { margin: 0; }
.banner strong { font-weight: 650; }
code { font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 8px; margin: 0 0 8px; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; display: flex; flex-direction: column-reverse; }
.tiles div[hidden] { display: none; }
.tiles dt { color: var(--soft); font-size: 12px; }
.tiles dd { margin: 0; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.2; }
.tiles dd[data-bad="true"] { color: var(--bad); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 8px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 8px 8px 2px; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 12px; padding: 0 4px 4px; font-size: 12px; font-weight: 600; }
.legend { display: flex; gap: 10px; font-weight: 400; color: var(--soft); }
.legend span::before { content: ""; display: inline-block; width: 10px; height: 2px; margin-right: 5px; vertical-align: middle; background: var(--one); }
.legend span:nth-child(2)::before { background: var(--two); }
.plot { position: relative; height: 150px; min-width: 0; overflow: hidden; border-radius: 4px; }
.reading { position: absolute; top: 8px; z-index: 1; pointer-events: none; padding: 5px 9px; border: 1px solid var(--line); border-radius: 4px; background: var(--card); font-size: 12px; font-variant-numeric: tabular-nums; white-space: nowrap; box-shadow: 0 1px 4px rgb(0 0 0 / 0.2); }
.reading div { display: flex; justify-content: space-between; gap: 12px; }
.reading .at, .reading .label { color: var(--soft); }
.reading b { font-weight: 600; }
.u-hz .u-cursor-x { border-right-color: var(--soft); }
main > section:not(.now), .columns > section { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 12px; }
.head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 12px; }
.note, .empty { margin: 0; color: var(--soft); font-size: 12px; }
.empty { margin-top: 8px; }
.filter { margin-left: auto; color: var(--soft); font-size: 12px; display: flex; align-items: center; gap: 6px; }
input { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line); border-radius: 4px; padding: 3px 8px; width: 190px; max-width: 100%; }
input::placeholder { color: var(--soft); opacity: 1; }
.columns { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); align-items: start; }
table { border-collapse: collapse; width: 100%; margin-top: 8px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-size: 12px; font-weight: 500; white-space: nowrap; vertical-align: bottom; }
tbody th { font-weight: 500; }
tbody tr:last-child > * { border-bottom: 0; }
.number, .action { text-align: right; white-space: nowrap; }
td small, th small { display: block; color: var(--soft); font-size: 12px; font-weight: 400; }
td:last-child, th:last-child { padding-right: 0; }
button { font: inherit; font-size: 12px; color: var(--accent); background: var(--card); border: 1px solid var(--line); border-radius: 4px; padding: 3px 10px; cursor: pointer; min-height: 28px; }
button:hover { border-color: currentColor; }
button:disabled { color: var(--soft); cursor: default; border-color: var(--line); }
button.danger { color: var(--bad); }
.read-only .action { display: none; }
.sort { border: 0; padding: 0; background: none; color: inherit; font-weight: 500; min-height: 24px; }
.sort:hover { color: var(--text); text-decoration: underline; }
.sort::after, .number .sort::before { content: ""; display: inline-block; width: 1em; text-align: center; }
.number .sort::after { display: none; }
[aria-sort] .sort { color: var(--text); font-weight: 650; }
[aria-sort="descending"] .sort::after, .number[aria-sort="descending"] .sort::before { content: "▾" / ""; }
[aria-sort="ascending"] .sort::after, .number[aria-sort="ascending"] .sort::before { content: "▴" / ""; }
tbody tr:hover { background: color-mix(in srgb, var(--accent) 6%, transparent); }
tr.gone { opacity: 0.55; }
.more { margin-top: 10px; }
.ask { max-width: min(440px, calc(100vw - 32px)); padding: 18px 20px; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 8px; box-shadow: 0 8px 30px rgb(0 0 0 / 0.3); }
.ask::backdrop { background: rgb(0 0 0 / 0.45); }
.ask h2 { font-size: 16px; }
.ask p { margin: 8px 0 16px; }
.actions { display: flex; justify-content: flex-end; gap: 8px; flex-wrap: wrap; }
.actions button { min-height: 36px; padding: 6px 16px; font-size: 14px; }
.actions .danger { color: var(--card); background: var(--bad); border-color: var(--bad); }
.denials { list-style: none; margin: 8px 0 0; padding: 0; }
.denials > li { border-bottom: 1px solid var(--line); }
.denials > li:last-child { border-bottom: 0; }
.denials summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 10px; padding: 5px 0 5px 18px; position: relative; cursor: pointer; list-style: none; }
.denials summary::-webkit-details-marker { display: none; }
.denials summary::before { content: "▸"; color: var(--soft); position: absolute; left: 2px; }
.denials details[open] > summary::before { content: "▾"; }
.denials .target { font-weight: 600; min-width: 0; }
.denials .why { color: var(--bad); }
.denials .why[data-decision="would_deny"] { color: var(--warn); }
.denials .who { color: var(--soft); min-width: 0; }
.denials .times { margin-left: auto; color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }
[hidden] { display: none; }
.remedy { padding: 0 0 12px 18px; max-width: 900px; }
.remedy p { margin: 0 0 6px; }
.remedy .step { margin-top: 10px; color: var(--soft); }
.code { display: flex; align-items: flex-start; gap: 8px; }
pre { flex: 1; min-width: 0; margin: 0; padding: 8px 10px; background: var(--code); border: 1px solid var(--line); border-radius: 4px; white-space: pre-wrap; font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
details > summary { cursor: pointer; }
@media (min-width: 761px) { p wbr, .facts wbr { display: none; } }
.problems { margin: 6px 0 0; padding-left: 20px; }
.problems li { font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
.problems:empty { display: none; }
.up { color: var(--good); }
.down { color: var(--bad); font-weight: 600; }
.stale main { opacity: 0.6; }
.u-axis, .u-over { cursor: default; }
@media (max-width: 760px) {
  header, main, footer { padding-left: 10px; padding-right: 10px; }
  .wide { display: none; }
  .head { align-items: center; }
  .filter { margin-left: 0; flex: 1 1 100%; }
  .filter input { flex: 1; }
  input { font-size: 16px; min-height: 40px; }
  button, .sort, .actions button { min-height: 40px; min-width: 40px; font-size: 13px; }
  summary { min-height: 40px; display: flex; align-items: center; }
  section > details > summary::before { content: "▸"; color: var(--soft); margin-right: 6px; }
  section > details[open] > summary::before { content: "▾"; }
  footer a, .skip { display: inline-flex; align-items: center; min-height: 40px; min-width: 40px; }
  .tiles { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .tiles div { padding: 6px 8px; }
  .tiles dd { font-size: 18px; }
  .denials summary { padding: 8px 0 8px 18px; }
  .denials .times { margin-left: 0; }
  .remedy { padding-left: 0; }
  .code { flex-direction: column; align-items: stretch; }
  th, td { padding-right: 8px; }
  #tunnels thead tr { display: flex; flex-wrap: wrap; align-items: center; gap: 0 14px; }
  #tunnels thead tr::before { content: "Sort by"; color: var(--soft); font-size: 12px; }
  #tunnels thead th { border: 0; padding: 0; }
  #tunnels thead th:last-child { display: none; }
  #tunnels, #tunnels thead, #tunnels tbody { display: block; }
  #tunnels tbody tr { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 4px 10px; padding: 10px 0; border-top: 1px solid var(--line); }
  #tunnels tbody th, #tunnels tbody td { border: 0; padding: 0; }
  #tunnels .target { grid-column: 1 / 4; font-weight: 600; }
  #tunnels .action { grid-column: 4; grid-row: 1; }
  #tunnels .client { grid-column: 1 / 3; }
  #tunnels .rule { grid-column: 3 / 5; text-align: right; }
  #tunnels td.bytes { order: 1; font-weight: 600; }
  #tunnels td.down-bytes { order: 2; }
  #tunnels td.up-bytes { order: 3; }
  #tunnels td.age { order: 4; }
  #tunnels td.number { text-align: left; }
  #tunnels td.number::before, #tunnels .rule::before { display: block; color: var(--soft); font-size: 12px; }
  #tunnels .rule::before { content: "rule"; }
  #tunnels td.bytes::before { content: "total"; }
  #tunnels td.up-bytes::before { content: "up"; }
  #tunnels td.down-bytes::before { content: "down"; }
  #tunnels td.age::before { content: "age"; }
}
@media (prefers-reduced-motion: no-preference) {
  .stale main { transition: opacity 0.3s; }
}
`
