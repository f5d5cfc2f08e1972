/**
 * The status page as one document that asks for nothing else: its styles and scripts stand in it, and its Content-Security-Policy
 * names them by their hashes, so that nothing runs there that did not come with the program.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { FAILURES_SECTION, FAILURES_STYLE, TROUBLE } from './failures-section.js'

export interface StatusPage {
  readonly html: string
  readonly contentSecurityPolicy: string
}

/** Compiled from client/, in the order in which one uses what another has: they share one scope. */
const SCRIPTS = ['format', 'elements', 'charts', 'figures', 'denials', 'failures', 'tunnels', 'main']

/** @throws the system's error when a file of it is not there */
export function readStatusPage(): StatusPage {
  const { resolve } = createRequire(import.meta.url)
  const read = (path: string | URL): string => readFileSync(path, 'utf8')
  const client = SCRIPTS.map(name => read(new URL(`./client/${name}.js`, import.meta.url))).join('\n')
  const styles = [read(resolve('uplot/dist/uPlot.min.css')), STATUS_STYLE + FAILURES_STYLE]
  const scripts = [
    read(resolve('uplot/dist/uPlot.iife.min.js')),
    `(() => {\n'use strict'\n${client}\nstart()\n})()`,
  ]
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sluice</title>
<link rel="icon" href="data:,">
${styles.map(text => `<style>${enclosed(text, 'style')}</style>`).join('\n')}
</head>
<body>
${STATUS_MARKUP}
${scripts.map(text => `<script>${enclosed(text, 'script')}</script>`).join('\n')}
</body>
</html>
`
  const policy = [
    "default-src 'none'",
    `script-src ${scripts.map(hashSource).join(' ')}`,
    `style-src ${styles.map(hashSource).join(' ')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ]
  return { html, contentSecurityPolicy: policy.join('; ') }
}

/** @throws RangeError when it would end its element */
function enclosed(text: string, element: 'script' | 'style'): string {
  if (text.toLowerCase().includes(`</${element}`)) throw new RangeError(`</${element} in a ${element}`)
  return text
}

/** CSP Level 3 §2.3.1. */
function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** The body of the page, before any number is in it. */
const CHARTS: readonly [id: string, title: string][] = [
  ['chart-requests', 'Requests, per second'],
  ['chart-bytes', 'Bytes, per second'],
  ['chart-tunnels', 'Open tunnels'],
]

const TILES: readonly [id: string, label: string][] = [
  ['requests', 'requests/s'],
  ['denied', 'refused/s'],
  ['failed', 'failed/s'],
  ['opened', 'new tunnels/s'],
  ['open', 'open tunnels'],
  ['up', 'up, bytes/s'],
  ['down', 'down, bytes/s'],
]

/** @param columns `#` before those that hold numbers, `~` before those that a narrow screen does without */
function table(id: string, caption: string, columns: readonly string[], empty: string): string {
  const heads = columns.map(column => {
    const isNumber = column.includes('#')
    const isWide = column.includes('~')
    const classes = [...(isNumber ? ['number'] : []), ...(isWide ? ['wide'] : [])].join(' ')
    const text = column.replace(/[#~]/g, '')
    return `<th scope="col"${classes === '' ? '' : ` class="${classes}"`}>${text}</th>`
  })
  return `<div class="scroll" role="region" aria-label="${caption}, table" tabindex="0">
<table id="${id}">
<caption class="unseen">${caption}</caption>
<thead><tr>${heads.join('')}</tr></thead>
<tbody></tbody>
</table>
</div>
<p class="empty" id="${id}-empty">${empty}</p>`
}

const STATUS_MARKUP = `<a class="skip" href="#main">Skip to the status</a>
<header>
<h1>Sluice</h1>
<p id="state" class="state" data-state="wait">connecting</p>
<dl id="facts" class="facts"></dl>
</header>
<p id="news" class="unseen" role="status" aria-live="polite"></p>
<main id="main" tabindex="-1">
<section aria-labelledby="now-title">
<h2 id="now-title" class="unseen">Now</h2>
${TROUBLE}
<p id="alert" class="alert" hidden></p>
<dl class="tiles">
${TILES.map(([id, label]) => `<div><dt>${label}</dt><dd id="tile-${id}">–</dd></div>`).join('\n')}
</dl>
<div class="charts">
${CHARTS.map(
  ([id, title]) =>
    `<figure id="${id}"><figcaption>${title}<span class="legend"></span></figcaption><div class="plot" role="img" aria-label="${title}"></div></figure>`,
).join('\n')}
</div>
</section>
${FAILURES_SECTION}
<section aria-labelledby="denials-title">
<div class="head"><h2 id="denials-title">Refused lately</h2><p id="denials-note" class="note"></p></div>
<ul id="denials" class="denials"></ul>
<p class="empty" id="denials-empty">Nothing was refused.</p>
</section>
<section aria-labelledby="tunnels-title">
<div class="head"><h2 id="tunnels-title">Open tunnels</h2><p id="tunnels-note" class="note"></p>
<label class="filter">Filter <input id="tunnels-filter" type="search" autocomplete="off" spellcheck="false" placeholder="host, user, rule"></label></div>
${table('tunnels', 'Open tunnels', ['target', 'client', '~rule', '#age', '#~up', '#down', '<span class="unseen">close</span>'], 'No tunnel is open.')}
</section>
<div class="columns">
<section aria-labelledby="latency-title">
<div class="head"><h2 id="latency-title">Latency</h2><p id="latency-note" class="note"></p></div>
${table('latency', 'Latency in milliseconds', ['of', '#p50', '#p95', '#p99', '#count'], 'Nothing was measured.')}
</section>
<section aria-labelledby="workers-title">
<h2 id="workers-title">Workers</h2>
${table('workers', 'Workers', ['worker', '#process', '#busy', '#requests/s', '#tunnels', '~configuration'], 'No worker reports.')}
</section>
<section id="upstreams-section" aria-labelledby="upstreams-title" hidden>
<h2 id="upstreams-title">Parents and upstreams</h2>
${table('upstreams', 'Parents and upstreams', ['upstream', 'route', 'state', '#failures'], 'None is configured.')}
</section>
<section id="cache-section" aria-labelledby="cache-title" hidden>
<h2 id="cache-title">Cache</h2>
<dl id="cache" class="facts"></dl>
</section>
<section aria-labelledby="config-title">
<h2 id="config-title">Configuration</h2>
<dl id="config" class="facts"></dl>
<ul id="problems" class="problems"></ul>
<details><summary>Limits</summary>
${table('limits', 'Limits', ['key', '#value', 'most used by'], '')}
</details>
</section>
</div>
</main>
<footer><p>The same as JSON: <a href="/status.json">/status.json</a>. Numbers: <a href="/metrics">/metrics</a>. For browsers: <a href="/proxy.pac">/proxy.pac</a>.</p></footer>`

/** How the status page looks: by light and by dark, from 360 pixels on. */
const STATUS_STYLE = `
:root {
  color-scheme: light dark;
  --back: #f6f7f8; --card: #fff; --line: #dde1e5; --text: #1b2126; --soft: #58636d; --accent: #0b63a8;
  --good: #17723b; --bad: #b42318; --warn: #8a5300; --code: #f1f3f5;
  --one: #0b63a8; --two: #c2410c; --three: #17723b; --grid: #e8ebee;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12161a; --card: #1a2026; --line: #2e373f; --text: #e4e8ec; --soft: #9aa6b1; --accent: #6cb6f5;
    --good: #57c785; --bad: #ff8578; --warn: #eab35b; --code: #12161a;
    --one: #6cb6f5; --two: #ff9d5c; --three: #57c785; --grid: #262e35;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
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
.state[data-state="lost"] { color: var(--bad); }
.facts { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 0; color: var(--soft); min-width: 0; }
.facts div { display: flex; gap: 6px; min-width: 0; }
.facts dt::after { content: ":"; }
.facts dd { margin: 0; color: var(--text); overflow-wrap: anywhere; }
.alert { margin: 0 0 12px; padding: 8px 12px; border: 1px solid var(--bad); border-left-width: 4px; border-radius: 4px; background: var(--card); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 8px; margin: 0 0 8px; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; display: flex; flex-direction: column-reverse; }
.tiles dt { color: var(--soft); font-size: 12px; }
.tiles dd { margin: 0; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.2; }
.tiles dd[data-bad="true"] { color: var(--bad); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 8px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 8px 8px 2px; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 12px; padding: 0 4px 4px; font-size: 12px; font-weight: 600; }
.legend { display: flex; gap: 10px; font-weight: 400; color: var(--soft); }
.legend span::before { content: ""; display: inline-block; width: 10px; height: 2px; margin-right: 5px; vertical-align: middle; background: var(--one); }
.legend span:nth-child(2)::before { background: var(--two); }
.plot { height: 150px; min-width: 0; overflow: hidden; }
main > section:not(:first-child), .columns > section { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 12px; }
.head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 12px; }
.note, .empty { margin: 0; color: var(--soft); font-size: 12px; }
.empty { margin-top: 8px; }
.filter { margin-left: auto; color: var(--soft); font-size: 12px; }
input { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line); border-radius: 4px; padding: 3px 8px; width: 190px; max-width: 100%; }
input::placeholder { color: var(--soft); opacity: 1; }
.columns { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); align-items: start; }
.scroll { overflow-x: auto; margin-top: 8px; }
.scroll.filled { max-height: 440px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-size: 12px; font-weight: 500; white-space: nowrap; position: sticky; top: 0; background: var(--card); }
tbody th { font-weight: 500; }
tbody tr:last-child > * { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; }
td.name, th.name { overflow-wrap: anywhere; min-width: 9em; }
td small, th small { display: block; color: var(--soft); font-size: 12px; font-weight: 400; }
td:last-child, th:last-child { padding-right: 0; }
button { font: inherit; font-size: 12px; color: var(--accent); background: var(--card); border: 1px solid var(--line); border-radius: 4px; padding: 2px 10px; cursor: pointer; min-height: 24px; }
button:hover { border-color: currentColor; }
button:disabled { color: var(--soft); cursor: default; }
button.danger { color: var(--bad); }
.read-only button.danger { display: none; }
.denials { list-style: none; margin: 8px 0 0; padding: 0; }
.denials > li { border-bottom: 1px solid var(--line); }
.denials > li:last-child { border-bottom: 0; }
.denials summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 10px; padding: 5px 0 5px 18px; position: relative; cursor: pointer; list-style: none; }
.denials summary::-webkit-details-marker { display: none; }
.denials summary::before { content: "▸"; color: var(--soft); position: absolute; left: 2px; }
.denials details[open] > summary::before { content: "▾"; }
.denials .target { font-weight: 600; overflow-wrap: anywhere; min-width: 0; }
.denials .why { color: var(--bad); }
.denials .why[data-decision="would_deny"] { color: var(--warn); }
.denials .who { color: var(--soft); overflow-wrap: anywhere; }
.denials .times { margin-left: auto; color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }
[hidden] { display: none; }
.remedy { padding: 0 0 10px 18px; max-width: 900px; }
.remedy p { margin: 0 0 6px; overflow-wrap: anywhere; }
.code { position: relative; }
pre { margin: 0; padding: 8px 76px 8px 10px; background: var(--code); border: 1px solid var(--line); border-radius: 4px; overflow-x: auto; font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
.code button { position: absolute; right: 6px; top: 6px; }
details > summary { cursor: pointer; }
.problems { margin: 4px 0 8px; padding-left: 20px; color: var(--bad); overflow-wrap: anywhere; }
.problems:empty { display: none; }
.up { color: var(--good); }
.down { color: var(--bad); font-weight: 600; }
.stale main { opacity: 0.6; }
.u-axis, .u-over { cursor: default; }
@media (max-width: 640px) {
  header, main, footer { padding-left: 10px; padding-right: 10px; }
  .wide { display: none; }
  .filter { margin-left: 0; }
  .tiles { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .tiles div { padding: 6px 8px; }
  .tiles dd { font-size: 18px; }
  .denials .times { margin-left: 0; }
  th, td { padding-right: 6px; }
  th.name { min-width: 6.5em; }
  td.name { min-width: 4.5em; }
}
@media (prefers-reduced-motion: no-preference) {
  .stale main { transition: opacity 0.3s; }
}
`
