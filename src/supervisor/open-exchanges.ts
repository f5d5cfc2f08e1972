/**
 * The exchanges that are open in a worker, read out of its log on its way: of a worker that is killed nobody else can
 * tell what it had not brought to an end. They are those whose decision is in the log and whose close is not, so what
 * the worker does for each exchange is no more than it was.
 */
import { LOG_SCHEMA } from '../observe/log.js'

/** The close of an exchange whose worker has ended; how many bytes it had passed, and its status, nobody knows. */
export interface LostExchange {
  readonly event: 'close'
  readonly close_reason: 'worker_exited'
  /** Milliseconds since its decision. */
  readonly duration_ms: number
  /** What it is known by. */
  readonly [member: string]: unknown
}

/** Where the event stands in a line at level info, or warn; those of exchanges begin alike. */
const EVENT_AT = `{"level":"info","time":"${new Date(0).toISOString()}","schema":${LOG_SCHEMA}`.length
const DECISION = ',"event":"decision","id":"'
const CLOSE = ',"event":"close","id":"'
const ERROR = '{"level":"error"'
const WARNING = '{"level":"warn"'
const LOST = ',"event":"log_lost"'
const IDENTITY = ['id', 'client', 'user', 'client_address', 'kind', 'method', 'host', 'port', 'path'] as const

export class OpenExchanges {
  /** The lines of their decisions, by id. */
  readonly #open = new Map<string, string>()
  /** Hashes of configurations under which every close is logged. */
  readonly #logged = new Set<string>()

  /** How many they are, as far as the log has come. */
  get size(): number {
    return this.#open.size
  }

  /** The worker serves under this configuration, too. */
  serves({
    hash,
    config,
  }: {
    readonly hash: string
    readonly config: { readonly log: { readonly level: string } }
  }): void {
    if (['trace', 'debug', 'info'].includes(config.log.level)) this.#logged.add(hash)
  }

  /** @param lines whole lines, with their line ends */
  read(lines: string): void {
    // Most of what begins in a piece of the log ends in it as well.
    const begun = new Map<string, number>()
    for (let at = 0; at < lines.length; at = endOf(lines, at)) {
      const event = at + EVENT_AT
      if (lines.startsWith(DECISION, event)) {
        if (this.#willClose(lines, at)) begun.set(idAt(lines, event + DECISION.length), at)
      } else if (lines.startsWith(CLOSE, event)) {
        const id = idAt(lines, event + CLOSE.length)
        if (!begun.delete(id)) this.#open.delete(id)
      } else if (lines.startsWith(ERROR, at) && lines.startsWith(LOST, event + 1)) {
        // Whose close is among the lost lines nobody knows.
        begun.clear()
        this.#open.clear()
      }
    }
    for (const at of begun.values()) {
      // A copy, as a part of the text would hold on to all of it.
      const line = Buffer.from(lines.slice(at, endOf(lines, at)), 'latin1').toString('latin1')
      this.#open.set(idAt(line, EVENT_AT + DECISION.length), line)
    }
  }

  /**
   * The worker has ended.
   * @param nowMs milliseconds since the epoch
   * @returns what is to be logged of those that were open
   */
  end(nowMs: number): LostExchange[] {
    const lost = [...this.#open.values()].map((line): LostExchange => {
      const decision = JSON.parse(line) as Record<string, unknown>
      const identity = Object.fromEntries(IDENTITY.map(name => [name, decision[name]]))
      const duration = Math.max(0, nowMs - Date.parse(String(decision['time'])))
      return { event: 'close', ...identity, close_reason: 'worker_exited', duration_ms: duration }
    })
    this.#open.clear()
    return lost
  }

  /** What is refused is over with its decision, and what is only observed is told of as a warning also where no close is. */
  #willClose(lines: string, at: number): boolean {
    if (!lines.startsWith(WARNING, at)) return true
    const { decision, config_hash: hash } = JSON.parse(lines.slice(at, endOf(lines, at))) as Record<
      string,
      unknown
    >
    return decision === 'would_deny' && this.#logged.has(String(hash))
  }
}

function endOf(lines: string, at: number): number {
  return lines.indexOf('\n', at) + 1 || lines.length
}

/** Ids have no character that is escaped. */
function idAt(lines: string, at: number): string {
  return lines.slice(at, lines.indexOf('"', at))
}
