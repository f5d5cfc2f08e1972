/**
 * The responses that Sluice makes itself when it cannot or will not pass a request on: one shape for all, with
 * Proxy-Status for programs (RFC 9209), a short body for people, and the reason in the status line too.
 *
 * A body that says 403 and no more is taken for the origin's. So a refusal by policy says that it is one, whose it
 * is, and where to look: the command that tells why policy refused is the same question, put to `sluice explain`. Its
 * words are made anew from what was understood, so that nothing of the client's own bytes comes back to it.
 */
import type { ProxyError } from '../errors.js'
import { proxyStatus } from '../http/proxy-status.js'
import { refusalPhrase } from '../http/reason-phrase.js'
import type { ResponseHead } from '../http1/response-writer.js'
import type { Subject } from './exchange-observer.js'
import { DENY_REASONS } from '../policy/denial.js'

export interface ErrorResponse {
  readonly head: ResponseHead
  readonly body: Buffer
}

/** Lines that a body may have below its sentence, each without its line end. */
export interface Advice {
  /** How to find out why policy refused, in our own words alone. */
  readonly hint?: string | undefined
  /** The operator's own line, `error_note`. */
  readonly note?: string | undefined
}

/** @param date the current HTTP-date */
export function errorResponse(error: ProxyError, date: string, { hint, note }: Advice = {}): ErrorResponse {
  const said = isPolicy(error) ? 'Sluice refused this by policy' : `Sluice answered ${error.status}`
  const lines = [`${said}: ${sentence(error)}`, hint, note]
  const body = Buffer.from(lines.flatMap(line => (line === undefined ? [] : `${line}\n`)).join(''))
  return {
    head: {
      status: error.status,
      reason: refusalPhrase(error.message),
      fields: [
        'Date',
        date,
        'Proxy-Status',
        proxyStatus(error),
        'Content-Type',
        'text/plain; charset=utf-8',
        'Cache-Control',
        'no-store',
        'X-Content-Type-Options',
        'nosniff',
        ...error.fields,
      ],
      contentLength: body.length,
    },
    body,
  }
}

/** What the client is told, as sentences. */
export function sentence({ message, detail }: Pick<ProxyError, 'message' | 'detail'>): string {
  return detail ?? `${message}.`
}

/** What the configuration refuses. 407, 429 and 503 are no such word: they ask for another try. */
function isPolicy({ side, status }: ProxyError): boolean {
  return side === 'proxy' && (status === 403 || status === 508)
}

/** The reasons that `sluice explain` comes to as well. */
const EXPLAINED: ReadonlySet<string> = new Set([...DENY_REASONS, 'client'])

/**
 * @param configured whether there is a configuration file; where it lies is nobody's business but the operator's
 * @returns one line, or undefined where there is nothing to explain: no refusal by policy, or no other host to ask for
 */
export function explainHint(
  { reason }: ProxyError,
  subject: Subject,
  configured: boolean,
): string | undefined {
  const { kind, method, host, port } = subject
  if (!EXPLAINED.has(reason) || host === undefined || port === undefined) return undefined
  if (kind !== 'connect' && kind !== 'forward') return undefined
  const where = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
  const words = [
    'sluice explain',
    ...(configured ? ['--config FILE'] : []),
    `--client ${subject.client ?? subject.clientAddress}`,
    ...(kind === 'connect' || method === 'GET' ? [] : [`--method ${quoted(method)}`]),
    quoted(kind === 'connect' ? where : `http://${where}/`),
  ]
  return `To see why: ${words.join(' ')}`
}

/** Brackets are a pattern to some shells, and a method may hold any mark that a token may. */
function quoted(word: string): string {
  return /^[\w.:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
