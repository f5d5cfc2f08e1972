/** Formats numbers and times for people. */

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** `0`, `0.4`, `12`, `1,234`. */
function formatNumber(value: number): string {
  if (value > 0 && value < 10) return value.toFixed(1).replace(/\.0$/, '')
  return Math.round(value).toLocaleString('en')
}

function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < BYTE_UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? Math.round(value) : formatNumber(value)} ${BYTE_UNITS[unit]}`
}

/** `42 s`, `3 min`, `2 h 5 min`, `4 d 1 h`. */
function formatAge(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} d ${hours % 24} h`
}

/** Local time in an unambiguous form, with its zone: `2026-11-22 09:05:07 +01:00`, `2026-11-22 08:05:07 UTC`. */
function formatTime(iso: string): string {
  const date = new Date(iso)
  const minutes = -date.getTimezoneOffset()
  const [day = '', time = ''] = new Date(date.getTime() + minutes * 60_000)
    .toISOString()
    .slice(0, 19)
    .split('T')
  return `${day} ${time} ${minutes === 0 ? 'UTC' : formatOffset(minutes)}`
}

function formatOffset(minutes: number): string {
  const size = Math.abs(minutes)
  const [hours, rest] = [Math.floor(size / 60), size % 60].map(part => String(part).padStart(2, '0'))
  return `${minutes < 0 ? '-' : '+'}${hours}:${rest}`
}

/** Local time of day: `09:05` or `09:05:07`. */
function formatClock(seconds: number, withSeconds: boolean): string {
  const options = { hour: '2-digit', minute: '2-digit' } as const
  const date = new Date(seconds * 1000)
  return date.toLocaleTimeString('en-GB', withSeconds ? { ...options, second: '2-digit' } : options)
}

function formatMs(ms: number | null): string {
  if (ms === null) return '–'
  if (ms < 10) return ms.toFixed(1)
  return Math.round(ms).toLocaleString('en')
}

function formatLimit({ value, unit }: { readonly value: number; readonly unit: string }): string {
  if (unit === 'bytes') return formatBytes(value)
  if (unit === 'ms') return value < 1000 ? `${value} ms` : formatAge(value / 1000)
  return value.toLocaleString('en')
}

/** `host:port`, with brackets around IPv6. */
function formatTarget(host: string | null, port: number | null): string {
  if (host === null) return 'no target'
  const name = host.includes(':') ? `[${host}]` : host
  return port === null ? name : `${name}:${port}`
}

/** `alice of agents`, `agents`, or `unknown`. */
function formatIdentity(client: string | null, user: string | null): string {
  const name = client ?? 'unknown'
  return user === null ? name : `${user} of ${name}`
}

function formatClient(client: string | null, user: string | null, address: string): string {
  return client === null && user === null ? address : `${formatIdentity(client, user)} (${address})`
}

/** `alice of agents: 37`; without a user, the address takes the place of the user. */
function formatShare(share: import('../../status-document.js').DocumentShare): string {
  const { client, user, client_address: address, count } = share
  return `${formatIdentity(client, user ?? address)}: ${count.toLocaleString('en')}`
}
