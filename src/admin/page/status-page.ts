/**
 * The status page: one document that loads nothing else. Its styles and scripts are inline, and its Content-Security-Policy
 * lists their hashes, so that nothing else can run in it.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { FAILURES_SECTION, FAILURES_STYLE, TROUBLE } from './failures-section.js'
import { STATUS_STYLE } from './style.js'

export interface StatusPage {
  readonly html: string
  readonly contentSecurityPolicy: string
}

/** The scripts compiled from client/. They share one scope; a script comes after those that it uses when it is loaded. */
const SCRIPTS = [
  'format',
  'elements',
  'held-order',
  'ask',
  'charts',
  'figures',
  'denials',
  'failures',
  'tunnels',
  'main',
]

/** @throws the system's error when one of its files cannot be read */
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

/** @throws RangeError when the text would end its own element */
function enclosed(text: string, element: 'script' | 'style'): string {
  if (text.toLowerCase().includes(`</${element}`)) throw new RangeError(`</${element} in a ${element}`)
  return text
}

/** A hash-source (CSP Level 3 §2.3.1). */
function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** The charts of the page, before they have data. */
const CHARTS: readonly [id: string, title: string][] = [
  ['chart-requests', 'Requests, per second'],
  ['chart-bytes', 'Bytes, per second'],
  ['chart-tunnels', 'Open tunnels'],
]

const TILES: readonly [id: string, label: string][] = [
  ['requests', 'requests/s'],
  ['denied', 'refused/s'],
  ['would-deny', 'would be refused/s'],
  ['failed', 'failed/s'],
  ['opened', 'new tunnels/s'],
  ['open', 'open tunnels'],
  ['up', 'up, bytes/s'],
  ['down', 'down, bytes/s'],
]

/**
 * @param columns the header texts. A prefix `#` marks a column of numbers, `~` one that narrow screens hide; a suffix `:key`
 *   makes the column sortable
 */
function table(id: string, caption: string, columns: readonly string[], empty: string): string {
  const heads = columns.map(column => {
    const [, marks = '', text = '', key] = /^([#~]*)(.*?)(?::(\w+))?$/.exec(column) ?? []
    const classes = [...(marks.includes('#') ? ['number'] : []), ...(marks.includes('~') ? ['wide'] : [])]
    const sort = key === undefined ? '' : ` data-sort="${key}"`
    const content = key === undefined ? text : `<button type="button" class="sort">${text}</button>`
    const className = classes.length === 0 ? '' : ` class="${classes.join(' ')}"`
    return `<th scope="col" role="columnheader"${className}${sort}>${content}</th>`
  })
  return `<table id="${id}" role="table">
<caption class="unseen">${caption}</caption>
<thead role="rowgroup"><tr role="row">${heads.join('')}</tr></thead>
<tbody role="rowgroup"></tbody>
</table>
<p class="empty" id="${id}-empty">${empty}</p>`
}

const TUNNEL_COLUMNS: readonly string[] = [
  'target:target',
  'client:client',
  'rule:rule',
  '#age:age',
  '#up:up',
  '#down:down',
  '#total:bytes',
  '<span class="unseen">close</span>',
]

const STATUS_MARKUP = `<a class="skip" href="#main">Skip to the status</a>
<header>
<h1>Sluice</h1>
<p id="state" class="state" data-state="wait">connecting</p>
<dl id="facts" class="facts"></dl>
</header>
<p id="news" class="unseen" role="status" aria-live="polite"></p>
<main id="main" tabindex="-1">
<div id="banners" class="banners">
${TROUBLE}
<div id="observe-banner" class="banner warning" hidden>
<p><strong>Observe mode: the rules are not enforced.</strong> What they would refuse passes, and is listed below as “would be refused”. <code>mode: enforce</code> in the configuration enforces them.</p>
</div>
<div id="rejected-banner" class="banner bad" hidden>
<p><strong>A change of the configuration was rejected.</strong> <span id="rejected-text"></span></p>
<ul id="problems" class="problems"></ul>
</div>
</div>
<section class="now" aria-labelledby="now-title">
<h2 id="now-title" class="unseen">Now</h2>
<dl class="tiles">
${TILES.map(([id, label]) => `<div${id === 'would-deny' ? ' hidden' : ''}><dt>${label}</dt><dd id="tile-${id}">–</dd></div>`).join('\n')}
</dl>
<div class="charts">
${CHARTS.map(
  ([id, title]) =>
    `<figure id="${id}"><figcaption>${title}<span class="legend"></span></figcaption><div class="plot" role="slider" tabindex="0" aria-label="${title}" aria-valuemin="0" aria-valuemax="0" aria-valuenow="0"></div></figure>`,
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
<div class="head"><h2 id="tunnels-title" tabindex="-1">Open tunnels</h2><p id="tunnels-note" class="note"></p>
<label class="filter">Filter <input id="tunnels-filter" type="search" autocomplete="off" spellcheck="false" placeholder="host, user, rule"></label></div>
${table('tunnels', 'Open tunnels', TUNNEL_COLUMNS, 'No tunnel is open.')}
<button id="tunnels-more" class="more" type="button" hidden>Show all</button>
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
<details><summary>Limits</summary>
${table('limits', 'Limits', ['key', '#value', 'most used by'], '')}
</details>
</section>
</div>
</main>
<dialog id="ask" class="ask" aria-labelledby="ask-title" aria-describedby="ask-text">
<h2 id="ask-title">Close this tunnel?</h2>
<p id="ask-text"></p>
<div class="actions"><button id="ask-no" type="button" autofocus>Keep it</button><button id="ask-yes" class="danger" type="button">Close it</button></div>
</dialog>
<footer><p>The same as JSON: <a href="/status.json">/status.json</a>. Numbers: <a href="/metrics">/metrics</a>. For browsers: <a href="/proxy.pac">/proxy.pac</a>.</p></footer>`
