/**
 * The events of exchanges in a form for people: one line for each exchange. A refusal is shown at once; any other exchange is
 * shown when it ends, with its result. One that takes longer, such as a tunnel that stays open for hours, also has a line
 * before.
 */

/** An event of the log, parsed from its line. */
export type LogFields = Readonly<Record<string, unknown>>

export interface ExchangeLinesOptions {
  readonly color: boolean
  /** Writes the lines about exchanges that take longer. */
  readonly write: (line: string) => void
  /** Calls `work` once after that many milliseconds; it does not keep the process alive. */
  readonly later: (work: () => void, ms: number) => void
}

const RED = 31
const GREEN = 32
const YELLOW = 33

/** The result of an exchange, and its colour. */
const VERBS = {
  ALLOW: GREEN,
  OPEN: GREEN,
  DENY: RED,
  'DENY?': YELLOW,
  FAIL: RED,
  GONE: YELLOW,
} as const satisfies Record<string, number>

type Verb = keyof typeof VERBS

/** An exchange that has not ended after this time, or at the latest after twice this time, gets a line OPEN. */
const LATE_MS = 1000
const VERB_WIDTH = 5
const METHOD_WIDTH = 7
const TARGET_WIDTH = 36
const BYTES_WIDTH = 8

const CONTROLS = /[\0-\x1f\x7f-\x9f]/g

export class ExchangeLines {
  readonly #options: ExchangeLinesOptions
  /** Allowed exchanges that have not ended, by id: `young` since the last look for late ones, `old` from before it. */
  #young = new Map<string, LogFields>()
  #old = new Map<string, LogFields>()
  #isScheduled = false

  constructor(options: ExchangeLinesOptions) {
    this.#options = options
  }

  /**
   * @param event `decision` or `close`
   * @returns the line with its line end; the empty text if another line reports the exchange
   */
  format(event: LogFields): string {
    return event['event'] === 'decision' ? this.#decision(event) : this.#close(event)
  }

  #decision(event: LogFields): string {
    switch (event['decision']) {
      case 'deny':
        return this.#line('DENY', event, why(event))
      case 'would_deny':
        return this.#line('DENY?', event, `${why(event)}; it passes, as mode is observe`)
      default:
        this.#young.set(text(event['id']), event)
        this.#scheduleLook()
        return ''
    }
  }

  #close(event: LogFields): string {
    const id = text(event['id'])
    this.#young.delete(id)
    this.#old.delete(id)
    if (event['server_name'] !== undefined || event['close_reason'] === 'server_name') {
      return this.#line('DENY', event, why(event))
    }
    const failed = event['error'] !== undefined
    // The line of its decision already says why.
    if (failed && event['detail'] === undefined) return ''
    const status = Number(event['status'] ?? 0)
    const reason = text(event['close_reason'])
    const words = [
      status === 0 ? '---' : String(status),
      `${bytes(event['bytes_up']).padStart(BYTES_WIDTH)} up`,
      `${bytes(event['bytes_down']).padStart(BYTES_WIDTH)} down`,
      duration(Number(event['duration_ms'])).padStart(BYTES_WIDTH),
      ...(event['cache'] === undefined ? [] : [text(event['cache'])]),
      ...(failed ? [why(event)] : reason === 'complete' ? [] : [reason]),
    ]
    return this.#line(verbOf(failed, reason, status), event, words.join('  '))
  }

  #scheduleLook(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#options.later(() => {
      this.#isScheduled = false
      for (const event of this.#old.values()) this.#options.write(this.#line('OPEN', event, 'not over yet'))
      this.#old = this.#young
      this.#young = new Map()
      if (this.#old.size > 0) this.#scheduleLook()
    }, LATE_MS)
  }

  #line(verb: Verb, event: LogFields, rest: string): string {
    const { color } = this.#options
    const at = time(verb === 'OPEN' ? new Date() : new Date(text(event['time'])))
    const said = [
      text(event['method']).padEnd(METHOD_WIDTH),
      target(event).padEnd(TARGET_WIDTH),
      `${rest}  (${who(event)})`,
    ]
    const plain = said.join(' ').replace(CONTROLS, escaped)
    const shown = color ? `\x1b[${VERBS[verb]}m${verb.padEnd(VERB_WIDTH)}` : verb.padEnd(VERB_WIDTH)
    // The whole line of a refusal is red, because refusals are what people look for.
    const end = color ? '\x1b[39m' : ''
    return verb === 'DENY' ? `[${at}] ${shown} ${plain}${end}\n` : `[${at}] ${shown}${end} ${plain}\n`
  }
}

/** An error of the store, such as 404, is an answer and not a failure. */
function verbOf(failed: boolean, reason: string, status: number): Verb {
  if ((failed && reason !== 'refused') || reason === 'worker_exited') return 'FAIL'
  return status === 0 ? 'GONE' : 'ALLOW'
}

/** The reason, and the first clause of the detail, which says what is wrong; the rest says how to allow it. */
function why(event: LogFields): string {
  const reason = text(event['reason'])
  const code = text(event['code'])
  const [clause = ''] = text(event['detail']).split(/[;.](?: |$)/)
  const said = code === '' || clause.includes(code) ? clause : `${clause} (${code})`
  return said === '' ? reason : `${reason}: ${said}`
}

/** The client's address, after the name of its user if that is known. */
function who(event: LogFields): string {
  const [user, address] = [text(event['user']), text(event['client_address'])]
  return user === '' ? address : `${user} ${address}`
}

const HTTP_PORT = 80

function target(event: LogFields): string {
  const [host, path, port] = [text(event['host']), text(event['path']), event['port']]
  const name = host.includes(':') ? `[${host}]` : host
  switch (event['kind']) {
    case 'forward':
      return `http://${name}${port === HTTP_PORT ? '' : `:${port}`}${path}`
    case 'connect':
      return `${name}:${port}`
    case 'server':
      return '*'
    default:
      return `${name}${path}` || '-'
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function time(date: Date): string {
  const two = (part: number): string => String(part).padStart(2, '0')
  const milliseconds = String(date.getMilliseconds()).padStart(3, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${milliseconds}`
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** A number of bytes in units of powers of a thousand, with up to three digits. */
function bytes(value: unknown): string {
  if (value === undefined) return '?'
  let count = Number(value)
  let unit = 0
  while (count >= 999.5 && unit < UNITS.length - 1) {
    count /= 1000
    unit += 1
  }
  return `${unit === 0 || count >= 99.95 ? Math.round(count) : count.toFixed(1)} ${UNITS[unit]}`
}

function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`
  const minutes = Math.floor(Math.round(seconds) / 60)
  if (minutes < 60) return `${minutes} min ${Math.round(seconds) - minutes * 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
