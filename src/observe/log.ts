/**
 * The log: JSON lines for machines, or readable lines for people. Neither contains control characters, which could affect the
 * terminal or the program that shows the log.
 */
import { createRequire } from 'node:module'
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino'
import { createIsoTime } from './event-line.js'
import { ExchangeLines, type LogFields } from './exchange-lines.js'
import { LogSink } from './log-sink.js'

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'

export interface LogOptions {
  readonly level: LogLevel
  readonly format: 'json' | 'pretty'
  /** Whether the readable format uses colour. */
  readonly color: boolean
}

export interface Log {
  readonly logger: Logger
  /** Writes whole JSON lines of another process's logger, with their line ends. */
  pass(lines: string): void
  /** The number of lines that could not be written so far. */
  lostLines(): number
  /** Resolves when the buffer is written; to be awaited before the process ends. */
  flush(): Promise<void>
}

/** The version of the events' layout; it increases with a change that breaks readers. */
export const LOG_SCHEMA = 1

/** DEL and the C1 controls, which terminals interpret and JSON does not escape. */
const UNESCAPED = /[\x7f-\x9f]/g
/** All control characters except line ends and tabs; the second one also lets changes of colour pass. */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g
const CONTROLS_BUT_COLOR = /(?!\x1b\[[\d;]*m)[\0-\x08\x0b-\x1f\x7f-\x9f]/g

/** @param fd the file descriptor to write to */
export function createLog(options: LogOptions, fd = 1): Log {
  const pretty = options.format === 'pretty'
  const format = pretty ? createFormatter(options.color, line => sink.write(line)) : unchanged
  const sink: LogSink = createLogSink(fd, format)
  const logger = createLogger(options.level, { write: line => sink.write(format(line)) })
  // JSON lines are passed on unchanged: this is a hot path.
  const pass = (lines: string): void => sink.write(pretty ? eachLine(lines, format) : lines)
  return { logger, pass, lostLines: () => sink.lostLines, flush: () => sink.flush() }
}

/**
 * @param fd the file descriptor to write to
 * @param format turns a JSON line into the line to be written
 */
export function createLogSink(fd: number, format: (line: string) => string = unchanged): LogSink {
  const time = createIsoTime(Date.now)
  return new LogSink(fd, lines =>
    format(
      `{"level":"error","time":"${time()}","schema":${LOG_SCHEMA},"event":"log_lost","lines":${lines}}\n`,
    ),
  )
}

function eachLine(lines: string, format: (line: string) => string): string {
  return lines.replace(/[^\n]+\n/g, format)
}

function unchanged(line: string): string {
  return line
}

/**
 * Sets the log level, does the work, and restores the level if the work fails. The level is set first because the parts of a
 * new configuration read it once, when they are created.
 */
export async function atLevel<T>(logger: Logger, level: LogLevel, work: () => Promise<T>): Promise<T> {
  const before = logger.level
  logger.level = level
  try {
    return await work()
  } catch (error) {
    logger.level = before
    throw error
  }
}

/** @param stream receives whole lines */
export function createLogger(level: LogLevel, stream: DestinationStream): Logger {
  return pino(
    {
      level,
      base: { schema: LOG_SCHEMA },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
      hooks: { streamWrite: line => line.replace(UNESCAPED, escaped) },
    },
    stream,
  )
}

/**
 * Returns a function that turns a JSON line into a line for people, or into the empty text.
 * @param write writes lines that are made later
 */
function createFormatter(color: boolean, write: (line: string) => void): (line: string) => string {
  // Loaded only for the readable format: it has thirty modules.
  const { prettyFactory } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty')
  const pretty = prettyFactory({
    colorize: color,
    ignore: 'schema,pid,hostname,event,message',
    messageFormat: ({ event, message }) =>
      typeof message === 'string' ? `${event}: ${oneLine(message)}` : String(event),
    translateTime: 'HH:MM:ss.l',
    singleLine: true,
    // Errors are shown in the same line too, as JSON.
    errorLikeObjectKeys: [],
  })
  const controls = color ? CONTROLS_BUT_COLOR : CONTROLS
  const exchanges = new ExchangeLines({ color, write, later: (work, ms) => setTimeout(work, ms).unref() })
  return line => {
    const exchange = exchangeEvent(line)
    if (exchange !== undefined) return exchanges.format(exchange)
    return pretty(line.replace(JSON_ESCAPE, doubled)).replace(controls, escaped)
  }
}

/** @returns undefined for a line of another event */
function exchangeEvent(line: string): LogFields | undefined {
  if (!/"event":"(?:decision|close)"/.test(line)) return undefined
  try {
    const event = JSON.parse(line) as LogFields
    return event['event'] === 'decision' || event['event'] === 'close' ? event : undefined
  } catch {
    return undefined
  }
}

/** pino-pretty shows one backslash for two in JSON, so `\\"` in a path would look like the end of the value. */
const JSON_ESCAPE = /\\./g

function doubled(sequence: string): string {
  return sequence === '\\\\' ? '\\\\\\\\' : sequence
}

/** A message that is shown as text, in one line. */
function oneLine(message: string): string {
  return message.replaceAll('\\\\', '\\').replace(/[\t\n]/g, escaped)
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
