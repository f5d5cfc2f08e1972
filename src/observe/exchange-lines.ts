/**
 * The events of exchanges for people: one line an exchange. A refusal is told at once, what passes when it is over, with
 * what it came to; and what takes longer, such as a tunnel that stays for hours, by a line of its own before that, too.
 */

/** An event of the log, read back from its line. */
export type LogFields = Readonly<Record<string, unknown>>

export interface ExchangeLinesOptions {
  readonly color: boolean
  /** Takes the lines about what takes longer. */
  readonly write: (line: string) => void
  /** Calls back once, after so many milliseconds, unless the process ends before. */
  readonly later: (work: () => void, ms: number) => void
}

const RED = 31
const GREEN = 32
const YELLOW = 33

/** What an exchange came to, and its colour. */
const VERBS = {
  ALLOW: GREEN,
  OPEN: GREEN,
  DENY: RED,
  'DENY?': YELLOW,
  FAIL: RED,
  GONE: YELLOW,
} as const satisfies Record<string, number>

type Verb = keyof typeof VERBS

/** What is not over after it, or at the latest after twice as long, is told of as open. */
const LATE_MS = 1000
const VERB_WIDTH = 5
const METHOD_WIDTH = 7
const TARGET_WIDTH = 36
const BYTES_WIDTH = 8

const CONTROLS = /[\0-\x1f\x7f-\x9f]/g

export class ExchangeLines {
  readonly #options: ExchangeLinesOptions
  /** What was allowed and is not over, by id: since the last time that it was looked for late ones, and before. */
  #young = new Map<string, LogFields>()
  #old = new Map<string, LogFields>()
  #waits = false

  constructor(options: ExchangeLinesOptions) {
    this.#options = options
  }

  /**
   * @param event `decision` or `close`
   * @returns the line with its end; nothing for what another line tells of
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
        this.#lookLater()
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
    // Its decision has told why.
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

  #lookLater(): void {
    if (this.#waits) return
    this.#waits = true
    this.#options.later(() => {
      this.#waits = false
      for (const event of this.#old.values()) this.#options.write(this.#line('OPEN', event, 'not over yet'))
      this.#old = this.#young
      this.#young = new Map()
      if (this.#old.size > 0) this.#lookLater()
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
    // A refusal is red as a whole: it is what is looked for.
    const end = color ? '\x1b[39m' : ''
    return verb === 'DENY' ? `[${at}] ${shown} ${plain}${end}\n` : `[${at}] ${shown}${end} ${plain}\n`
  }
}

/** An error of an origin of our own, such as 404, is an answer. */
function verbOf(failed: boolean, reason: string, status: number): Verb {
  if ((failed && reason !== 'refused') || reason === 'worker_exited') return 'FAIL'
  return status === 0 ? 'GONE' : 'ALLOW'
}

/** The reason, and as much of the sentence as says what is wrong; the rest is how to allow it. */
function why(event: LogFields): string {
  const reason = text(event['reason'])
  const code = text(event['code'])
  const [clause = ''] = text(event['detail']).split(/[;.](?: |$)/)
  const said = code === '' || clause.includes(code) ? clause : `${clause} (${code})`
  return said === '' ? reason : `${reason}: ${said}`
}

/** The address, behind the name of whoever has shown who they are. */
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

/** In powers of a thousand, with three digits. */
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
