/**
 * Error responses: all responses that Sluice generates when it cannot or will not forward a request. They have one
 * form, with Proxy-Status for programs (RFC 9209), a short body for people, and the reason in the status line as well.
 *
 * A body that says only 403 would be attributed to the origin. So a refusal by the policy says that it is one, whose
 * policy it is, and how to find the reason: with `sluice explain` for the same request. The command is composed only of
 * parsed values, so that no bytes of the client are reflected to it.
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

/** Lines that a body may have after its sentences, without line ends. */
export interface Advice {
  /** How to find out why the policy refused, with no bytes of the client. */
  readonly hint?: string | undefined
  /** The operator's own line, `error_note`. */
  readonly note?: string | undefined
}

/** @param date the current HTTP-date */
export function errorResponse(error: ProxyError, date: string, { hint, note }: Advice = {}): ErrorResponse {
  const summary = isPolicy(error) ? 'Sluice refused this by policy' : `Sluice answered ${error.status}`
  const lines = [`${summary}: ${sentence(error)}`, hint, note]
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

/** The explanation for the client, as sentences. */
export function sentence({ message, detail }: Pick<ProxyError, 'message' | 'detail'>): string {
  return detail ?? `${message}.`
}

/** Refusals by policy. 407, 429 and 503 are not: the client may retry those. */
function isPolicy({ side, status }: ProxyError): boolean {
  return side === 'proxy' && (status === 403 || status === 508)
}

/** The reasons that `sluice explain` can give as well. */
const EXPLAINED: ReadonlySet<string> = new Set([...DENY_REASONS, 'client'])

/**
 * @param configured whether there is a configuration file; its path is not revealed to clients
 * @returns one line, or undefined when there is nothing to explain: no refusal by policy, or no host
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

/** Some shells interpret brackets as a pattern, and a method may contain any punctuation that a token may. */
function quoted(word: string): string {
  return /^[\w.:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
