/**
 * The log: JSON lines for machines, or readable lines for people. Neither holds a control character that could steer
 * the terminal or the program it is read with.
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
  /** Colour, for the readable format. */
  readonly color: boolean
}

export interface Log {
  readonly logger: Logger
  /** Writes whole lines that the logger of another process has made, as JSON, with their line ends. */
  pass(lines: string): void
  /** How many lines could not be written so far. */
  lostLines(): number
  /** Resolves when what is buffered is written; whoever ends the process waits for it. */
  flush(): Promise<void>
}

/** The layout of the events; a change that breaks a reader raises it. */
export const LOG_SCHEMA = 1

/** JSON escapes the controls below SP; DEL and the C1 controls, which terminals obey too, it leaves as they are. */
const UNESCAPED = /[\x7f-\x9f]/g
/** Everything that a terminal obeys but line ends, tabs and, where there is colour, the change of it. */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g
const CONTROLS_BUT_COLOR = /(?!\x1b\[[\d;]*m)[\0-\x08\x0b-\x1f\x7f-\x9f]/g

/** @param fd the file descriptor to write to */
export function createLog(options: LogOptions, fd = 1): Log {
  const pretty = options.format === 'pretty'
  const format = pretty ? readable(options.color, line => sink.write(line)) : asItIs
  const sink: LogSink = createLogSink(fd, format)
  const logger = createLogger(options.level, { write: line => sink.write(format(line)) })
  // JSON goes on as it is, and at once: this is a hot path.
  const pass = (lines: string): void => sink.write(pretty ? eachLine(lines, format) : lines)
  return { logger, pass, lostLines: () => sink.lostLines, flush: () => sink.flush() }
}

/**
 * @param fd the file descriptor to write to
 * @param format makes the line to be written of one of JSON
 */
export function createLogSink(fd: number, format: (line: string) => string = asItIs): LogSink {
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

function asItIs(line: string): string {
  return line
}

/**
 * Has the work done at another level, which stays when it is done, and does not when it fails. It is set first, as what is
 * made of a configuration asks for it once.
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

/** @param stream takes whole lines */
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
 * From a line of JSON to a line for people, or to none.
 * @param write takes lines that come later
 */
function readable(color: boolean, write: (line: string) => void): (line: string) => string {
  // Loaded for people alone: JSON does without its thirty modules.
  const { prettyFactory } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty')
  const pretty = prettyFactory({
    colorize: color,
    ignore: 'schema,pid,hostname,event,message',
    messageFormat: ({ event, message }) =>
      typeof message === 'string' ? `${event}: ${oneLine(message)}` : String(event),
    translateTime: 'HH:MM:ss.l',
    singleLine: true,
    // In the same line, and as JSON, too.
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

/** pino-pretty shows one backslash where JSON has two: `\\"` of a path would read as the end of its value. */
const JSON_ESCAPE = /\\./g

function doubled(sequence: string): string {
  return sequence === '\\\\' ? '\\\\\\\\' : sequence
}

/** Of a message that is shown as text, and not as JSON. */
function oneLine(message: string): string {
  return message.replaceAll('\\\\', '\\').replace(/[\t\n]/g, escaped)
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
