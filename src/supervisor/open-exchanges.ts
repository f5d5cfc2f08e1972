/**
 * The open exchanges of a worker, read from its log: when a worker is killed, only the supervisor can log the close of
 * its exchanges. They are those with a decision but no close in the log, so the worker itself does nothing extra for
 * each exchange.
 */
import { LOG_SCHEMA } from '../observe/log.js'

/** The close of an exchange whose worker has ended; its bytes and its status are unknown. */
export interface LostExchange {
  readonly event: 'close'
  readonly close_reason: 'worker_exited'
  /** Milliseconds since its decision. */
  readonly duration_ms: number
  /** The members that identify the exchange. */
  readonly [member: string]: unknown
}

/** The position of the event in a line at level info or warn; all lines of exchanges begin alike. */
const EVENT_AT = `{"level":"info","time":"${new Date(0).toISOString()}","schema":${LOG_SCHEMA}`.length
const DECISION = ',"event":"decision","id":"'
const CLOSE = ',"event":"close","id":"'
const ERROR = '{"level":"error"'
const WARNING = '{"level":"warn"'
const LOST = ',"event":"log_lost"'
const IDENTITY = ['id', 'client', 'user', 'client_address', 'kind', 'method', 'host', 'port', 'path'] as const

export class OpenExchanges {
  /** The lines of their decisions, by exchange id. */
  readonly #open = new Map<string, string>()
  /** Hashes of configurations for which every close is logged. */
  readonly #logged = new Set<string>()

  /** How many there are, as far as the log was read. */
  get size(): number {
    return this.#open.size
  }

  /** Must be called with every configuration that the worker uses. */
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
    // Most exchanges that begin in a piece of the log also end in it.
    const opened = new Map<string, number>()
    for (let at = 0; at < lines.length; at = endOf(lines, at)) {
      const event = at + EVENT_AT
      if (lines.startsWith(DECISION, event)) {
        if (this.#willClose(lines, at)) opened.set(idAt(lines, event + DECISION.length), at)
      } else if (lines.startsWith(CLOSE, event)) {
        const id = idAt(lines, event + CLOSE.length)
        if (!opened.delete(id)) this.#open.delete(id)
      } else if (lines.startsWith(ERROR, at) && lines.startsWith(LOST, event + 1)) {
        // It is unknown whose close is among the lost lines.
        opened.clear()
        this.#open.clear()
      }
    }
    for (const at of opened.values()) {
      // Copied, because a substring would keep the whole text in memory.
      const line = Buffer.from(lines.slice(at, endOf(lines, at)), 'latin1').toString('latin1')
      this.#open.set(idAt(line, EVENT_AT + DECISION.length), line)
    }
  }

  /**
   * Called when the worker has ended.
   * @param nowMs milliseconds since the epoch
   * @returns the close events to log for the exchanges that were open
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

  /** A refusal is not followed by a close event at these levels; an observed one only if closes are logged. */
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

/** Ids contain no characters that JSON escapes. */
function idAt(lines: string, at: number): string {
  return lines.slice(at, lines.indexOf('"', at))
}
