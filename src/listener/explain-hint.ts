/**
 * The command that tells why policy refused, for the body of the refusal: the same question, put to `sluice explain`.
 * The words are made anew from what was understood, so that nothing of the client's own bytes comes back to it.
 */
import type { ProxyError } from '../errors.js'
import type { Subject } from '../observe/exchange-observer.js'
import { DENY_REASONS } from '../policy/denial.js'

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
