/** The head of the page, its banners and tiles, and the tables of texts. */

type Status = import('../../status-document.js').StatusDocument
type StatusLatency = import('../../status-document.js').DocumentLatency

const NUMBER = 'number'

function createFigures(): (status: Status) => void {
  const latency = textTable<readonly [string, StatusLatency]>(
    'latency',
    ['', NUMBER, NUMBER, NUMBER, NUMBER],
    ([name]) => name,
    ([name, { p50, p95, p99, count }]) => [
      name,
      ...[p50, p95, p99].map(formatMs),
      count.toLocaleString('en'),
    ],
  )
  const workers = textTable<Status['workers'][number]>(
    'workers',
    ['', NUMBER, NUMBER, NUMBER, NUMBER, 'wide'],
    ({ worker, started }) => `${worker} ${started}`,
    worker => [
      String(worker.worker),
      String(worker.pid ?? '–'),
      `${Math.round(worker.busy * 100)} %`,
      formatNumber(worker.requests_per_second),
      worker.tunnels.toLocaleString('en'),
      worker.config_hash,
    ],
  )
  const upstreams = textTable<Status['upstreams'][number]>(
    'upstreams',
    ['name', 'name', '', NUMBER],
    ({ route, upstream }) => JSON.stringify([route, upstream]),
    ({ route, upstream, up, failures }) => [upstream, route, up ? 'up' : 'down', String(failures)],
  )
  const limits = textTable<Status['limits'][number] | Status['client_limits'][number]>(
    'limits',
    ['', NUMBER, 'name'],
    nameOfLimit,
    limit => [nameOfLimit(limit), formatLimit(limit), (limit.most ?? []).map(formatShare).join(', ')],
  )
  return status => {
    showHead(status)
    showBanners(status)
    showTiles(status)
    showConfiguration(status)
    setText(found('latency-note'), `milliseconds, last ${formatAge(status.latency.window_seconds)}`)
    latency([
      ['DNS', status.latency.dns],
      ['connecting', status.latency.dial],
      ['first byte', status.latency.first_byte],
    ])
    workers(status.workers)
    upstreams(status.upstreams)
    found('upstreams-section').hidden = status.upstreams.length === 0
    for (const cell of document.querySelectorAll('#upstreams td:nth-child(3)')) {
      cell.className = cell.textContent === 'up' ? 'up' : 'down'
    }
    showCache(status.cache)
    limits([...status.limits, ...status.client_limits])
  }
}

/** As messages name it: entries of clients have limits of their own. */
function nameOfLimit(limit: Status['limits'][number] | Status['client_limits'][number]): string {
  return 'client' in limit ? `clients[${limit.client}].limits.${limit.key}` : `limits.${limit.key}`
}

function showHead({ version, uptime_seconds: uptime, config, listen }: Status): void {
  setFacts(found('facts'), [
    ['version', version ?? 'unknown'],
    ['up', formatAge(uptime)],
    ['mode', config.modes],
    ['configuration', config.hash],
    ['listens on', [...listen.proxy, ...(listen.tls === null ? [] : [`${listen.tls} (TLS)`])].join(', ')],
  ])
}

function showTiles({ config, rates, tunnels }: Status): void {
  const tiles = {
    requests: formatNumber(rates.requests_per_second),
    denied: formatNumber(rates.denied_per_second),
    'would-deny': formatNumber(rates.would_deny_per_second),
    opened: formatNumber(rates.tunnels_per_second),
    open: tunnels.open.toLocaleString('en'),
    up: formatBytes(rates.bytes_up_per_second),
    down: formatBytes(rates.bytes_down_per_second),
  }
  for (const [id, text] of Object.entries(tiles)) setText(found(`tile-${id}`), text)
  const observes = config.mode === 'observe' || config.observed.length > 0
  const wouldDeny = found('tile-would-deny').parentElement
  if (wouldDeny !== null) wouldDeny.hidden = !observes && rates.would_deny_per_second === 0
  found('tile-denied').dataset['bad'] = String(rates.denied_per_second > 0)
}

function showCache(cache: Status['cache']): void {
  found('cache-section').hidden = cache === null
  if (cache === null) return
  const { store, up, entries, bytes, size_bytes: size, hit_ratio: ratio } = cache
  setFacts(found('cache'), [
    ['store', up ? store : `${store}, down`],
    ['hit ratio', ratio === null ? '–' : `${(ratio * 100).toFixed(1)} %`],
    ['served', formatBytes(cache.served_bytes)],
    ['responses', entries.toLocaleString('en')],
    ['stored', size === null ? formatBytes(bytes) : `${formatBytes(bytes)} of ${formatBytes(size)}`],
    ['evicted', cache.evictions.toLocaleString('en')],
  ])
}

function showConfiguration({ config, node, workers }: Status): void {
  const { last_reload: reload, needs_restart: needsRestart } = config
  const behind = workers.filter(worker => worker.config_hash !== config.hash).length
  setFacts(found('config'), [
    ['in force', config.hash],
    [
      'last reload',
      reload === null ? 'none since the start' : `${reload.result}, ${formatTime(reload.time)}`,
    ],
    ...(needsRestart.length === 0 ? [] : [['waits for a restart', needsRestart.join(', ')] as const]),
    ...(behind === 0 ? [] : [['workers with another one', String(behind)] as const]),
    ['Node', node ?? 'unknown'],
  ])
}

/** The banners of mode observe and of a rejected configuration, with its problems. */
function showBanners({ config: { mode, hash, last_reload: reload } }: Status): void {
  found('observe-banner').hidden = mode !== 'observe'
  document.body.classList.toggle('observe', mode === 'observe')
  const banner = found('rejected-banner')
  const wasHidden = banner.hidden
  banner.hidden = reload?.result !== 'rejected'
  if (reload === null || banner.hidden) return
  setText(
    found('rejected-text'),
    `Read at ${formatTime(reload.time)}; the configuration before it, ${hash}, stays in force.`,
  )
  const list = found('problems')
  if (list.textContent !== reload.problems.join(''))
    list.replaceChildren(...reload.problems.map(text => made('li', '', ...breakable(text))))
  if (wasHidden) announce(`A change of the configuration was rejected: ${reload.problems[0] ?? ''}`)
}
