/**
 * Reason phrases (RFC 9112 §4): text for people. Ours carry the reason of a refusal, because several clients print
 * the status line of a failed CONNECT and hide the body.
 */
import { STATUS_CODES } from './node-http.js'

const PHRASE = /^[\t\x20-\x7e]*$/
const MAX_LENGTH = 200

/** The registered phrase for a status code, or an empty one. */
export function registeredPhrase(status: number): string {
  return STATUS_CODES[status] ?? ''
}

/** `Sluice: what happened`, in bytes that a reason phrase may hold and of bounded length. */
export function refusalPhrase(message: string): string {
  return `Sluice: ${message.replace(/[^\x20-\x7e]/g, '?')}`.slice(0, MAX_LENGTH)
}

/** A received phrase when it is printable ASCII, otherwise the registered one: nothing acts on a reason phrase. */
export function forwardedPhrase(status: number, phrase: string): string {
  return PHRASE.test(phrase) ? phrase : registeredPhrase(status)
}
