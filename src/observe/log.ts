/**
 * The log: JSON lines for machines, or readable lines for people. Writing is buffered, so that a line costs no system
 * call; whoever ends the process flushes.
 */
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino'
import pretty from 'pino-pretty'

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'

export interface LogOptions {
  readonly level: LogLevel
  readonly format: 'json' | 'pretty'
  /** Colour, for the readable format. */
  readonly color: boolean
}

export interface Log {
  readonly logger: Logger
  /** Writes out what is buffered, at once. */
  flush(): void
}

/** The layout of the events; a change that breaks a reader raises it. */
const SCHEMA = 1
const BUFFER_BYTES = 32 * 1024
const MAX_WRITE_BYTES = 64 * 1024
const FLUSH_INTERVAL_MS = 200

/** @param fd the file descriptor to write to */
export function createLog(options: LogOptions, fd = 1): Log {
  if (options.format === 'pretty') {
    const stream = pretty({
      colorize: options.color,
      sync: true,
      destination: fd,
      ignore: 'schema,pid,hostname,event',
      messageFormat: '{event}',
      translateTime: 'HH:MM:ss.l',
      singleLine: true,
    })
    return { logger: createLogger(options.level, stream), flush: () => {} }
  }
  const destination = pino.destination({
    fd,
    sync: false,
    minLength: BUFFER_BYTES,
    maxWrite: MAX_WRITE_BYTES,
    periodicFlush: FLUSH_INTERVAL_MS,
  })
  // The reader of the log may go away at any time; that is not a reason to stop serving.
  destination.on('error', () => {})
  return {
    logger: createLogger(options.level, destination),
    flush: () => {
      try {
        destination.flushSync()
      } catch {
        // Nothing is left to write to: the reader of the log is gone.
      }
    },
  }
}

/** @param stream takes whole lines */
export function createLogger(level: LogLevel, stream: DestinationStream): Logger {
  return pino(
    {
      level,
      base: { schema: SCHEMA },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    stream,
  )
}
