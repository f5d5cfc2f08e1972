/** The body of the status page, before any number is in it. */

const CHARTS: readonly [id: string, title: string][] = [
  ['chart-requests', 'Requests and refusals, per second'],
  ['chart-bytes', 'Bytes, per second'],
  ['chart-tunnels', 'Open tunnels'],
]

const TILES: readonly [id: string, label: string][] = [
  ['requests', 'requests/s'],
  ['denied', 'refused/s'],
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

export const STATUS_MARKUP = `<a class="skip" href="#main">Skip to the status</a>
<header>
<h1>Sluice</h1>
<p id="state" class="state" data-state="wait">connecting</p>
<dl id="facts" class="facts"></dl>
</header>
<p id="news" class="unseen" role="status" aria-live="polite"></p>
<main id="main" tabindex="-1">
<section aria-labelledby="now-title">
<h2 id="now-title" class="unseen">Now</h2>
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
<section aria-labelledby="denials-title">
<div class="head"><h2 id="denials-title">Refused lately</h2><p id="denials-note" class="note"></p></div>
<ul id="denials" class="denials"></ul>
<p class="empty" id="denials-empty">Nothing was refused.</p>
</section>
<section aria-labelledby="tunnels-title">
<div class="head"><h2 id="tunnels-title">Open tunnels</h2><p id="tunnels-note" class="note"></p>
<label class="filter">Filter <input id="tunnels-filter" type="search" autocomplete="off" spellcheck="false" placeholder="host, client, rule"></label></div>
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
<h2 id="upstreams-title">Upstreams of origins</h2>
${table('upstreams', 'Upstreams of origins', ['upstream', 'route', 'state', '#failures'], 'None is configured.')}
</section>
<section aria-labelledby="config-title">
<h2 id="config-title">Configuration</h2>
<dl id="config" class="facts"></dl>
<ul id="problems" class="problems"></ul>
<details><summary>Limits</summary>
${table('limits', 'Limits', ['key', '#value'], '')}
</details>
</section>
</div>
</main>
<footer><p>The same as JSON: <a href="/status.json">/status.json</a>. Numbers: <a href="/metrics">/metrics</a>. For browsers: <a href="/proxy.pac">/proxy.pac</a>.</p></footer>`
