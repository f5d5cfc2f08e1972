/**
 * The errors for requests without a client: 407 if a name and a password could help, 403 if only another configuration could,
 * 429 and 503 if the client has to wait. None of them repeats a credential.
 */
import { ProxyError } from '../errors.js'
import { BASIC_CHALLENGE } from '../http/basic-credentials.js'

/** What is wrong with the credentials of a request. */
export type CredentialFault = 'missing' | 'malformed' | 'wrong'

const CHALLENGES = {
  missing:
    'Send a name and a password with Proxy-Authorization, as clients do for a proxy at http://NAME:PASSWORD@HOST:PORT; an htpasswd_file under clients holds those that are let in.',
  malformed:
    'Proxy-Authorization has to be one field with Basic and, in base64, a name, a colon and a password in UTF-8 without control characters.',
  wrong: 'The htpasswd_file under clients that decides does not hold this name with this password.',
} as const satisfies Record<CredentialFault, string>

/**
 * 407, which asks for other credentials (RFC 9110 §15.5.8).
 * @param certificateError why a client certificate could not be used instead
 */
export function credentialsRefused(fault: CredentialFault, certificateError?: string): ProxyError {
  return new ProxyError('http_request_denied', `proxy credentials are ${fault}`, {
    status: 407,
    reason: `credentials_${fault}`,
    detail: CHALLENGES[fault] + noteOn(certificateError),
    fields: ['Proxy-Authenticate', BASIC_CHALLENGE],
  })
}

/**
 * 403 to a right name and password, where all entries that take them are for other users: no other credentials are asked for.
 * @param certificateError why a client certificate could not be used instead
 */
export function unlistedUser(user: string, certificateError?: string): ProxyError {
  return new ProxyError('http_request_denied', 'no entry of clients names this user', {
    reason: 'user',
    detail: `Name and password are right, but no entry of clients that asks for them has this name in its users; add it to those of one.${noteOn(certificateError)}`,
    user,
  })
}

function noteOn(certificateError: string | undefined): string {
  return certificateError === undefined ? '' : ` The client certificate is not valid: ${certificateError}.`
}

/** 429 (RFC 6585 §4). */
export function tooManyFailures(retryAfterSeconds: number): ProxyError {
  return new ProxyError('http_request_denied', 'too many wrong proxy credentials from this address', {
    status: 429,
    reason: 'authentication_rate',
    detail: `Too many credentials from this address were not in the htpasswd_file under clients, or wait to be checked; no more are looked at for ${retryAfterSeconds} s.`,
    fields: ['Retry-After', String(retryAfterSeconds)],
  })
}

/** 503 (RFC 9110 §15.6.4). */
export function authenticationBusy(): ProxyError {
  return new ProxyError('http_request_denied', 'too many passwords wait to be checked', {
    status: 503,
    reason: 'authentication_busy',
    detail:
      'Passwords of the htpasswd_file under clients are checked one after another; try again, or give the hashes a lower cost.',
    fields: ['Retry-After', '1'],
  })
}

export function unknownAddress(address: string): ProxyError {
  return unknownClient(
    address,
    `No entry of clients holds the address ${address}; add it to the cidr list of one.`,
  )
}

/** The error for a client of a Unix socket. */
export function unknownUnixClient(address: string): ProxyError {
  return unknownClient(address, 'No entry of clients is for Unix sockets; one with unix: true would be.')
}

/**
 * @param presented whether there was a certificate, though not one that is asked for
 * @param user the holder of that
 */
export function certificateMissing(address: string, presented: boolean, user?: string): ProxyError {
  const lack = presented
    ? 'and the one that was presented is not what certificate of any of them names'
    : 'and none was presented; connect to listen.tls with one'
  return unknownClient(
    address,
    `The entries of clients that hold the address ${address} ask for a client certificate, ${lack}.`,
    user,
  )
}

function unknownClient(address: string, detail: string, user?: string): ProxyError {
  return new ProxyError('http_request_denied', `client ${address} is not known`, {
    reason: 'client',
    detail,
    user,
  })
}

/** @param error OpenSSL's word for what is wrong with it */
export function certificateInvalid(error: string): ProxyError {
  return new ProxyError('http_request_denied', `the client certificate is not valid (${error})`, {
    reason: 'certificate',
    detail: `The client certificate is not valid: ${error}. It has to be in date, issued under client_ca and not revoked by crl of listen.tls.`,
  })
}
