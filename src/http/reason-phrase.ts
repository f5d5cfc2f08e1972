/**
 * Reason phrases (RFC 9112 §4): text for people. The phrases that Sluice generates contain the reason of a refusal,
 * because several clients print the status line of a failed CONNECT and hide the body.
 */
import { STATUS_CODES } from './node-http.js'

const PHRASE = /^[\t\x20-\x7e]*$/
const MAX_LENGTH = 200

/** The registered phrase for a status code, or an empty one. */
export function registeredPhrase(status: number): string {
  return STATUS_CODES[status] ?? ''
}

/** `Sluice: <message>`, in characters that are allowed in a reason phrase and of limited length. */
export function refusalPhrase(message: string): string {
  return `Sluice: ${message.replace(/[^\x20-\x7e]/g, '?')}`.slice(0, MAX_LENGTH)
}

/** The received phrase if it is printable ASCII, otherwise the registered one: no recipient depends on the phrase. */
export function forwardedPhrase(status: number, phrase: string): string {
  return PHRASE.test(phrase) ? phrase : registeredPhrase(status)
}
