/**
 * `tracing`: where spans are sent, and for which share of the traces. The URL of the collector is that of the OTLP/HTTP
 * endpoint itself, with its path: nothing is appended.
 */
import * as z from 'zod'
import { type Authority, parseAuthority } from '../http/authority.js'
import { filePath, parsed, section, text } from './fields.js'
import { withoutUserinfo } from './upstream-url.js'

export interface CollectorUrl {
  readonly scheme: 'http' | 'https'
  readonly authority: Authority
  /** As written. */
  readonly text: string
}

const URL_PATTERN = '^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+/[^?#]+$'
const URL_PARTS = /^(https?):\/\/([^/?#]*)(.*)$/i
const PATH = /^\/[!"$->@-~]+$/
const PORTS = { http: 80, https: 443 } as const
const EXPECTED_URL = 'expected a URL such as "http://127.0.0.1:4318/v1/traces"'

/** @throws RangeError whose message says what was expected, without credentials */
export function parseCollectorUrl(text: string): CollectorUrl {
  const [, scheme = '', written = '', path = ''] = URL_PARTS.exec(text) ?? []
  if (scheme === '') throw refused(text, 'which does not begin with http:// or https://')
  const known = scheme.toLowerCase() === 'https' ? 'https' : 'http'
  let authority: Authority
  try {
    authority = parseAuthority(written, PORTS[known])
  } catch (error) {
    throw refused(text, error instanceof Error ? error.message : 'with a bad host')
  }
  if (path === '' || path === '/') throw refused(text, 'without a path; collectors have /v1/traces')
  if (!PATH.test(path)) throw refused(text, 'with a query, a fragment, or characters that no URL has')
  return { scheme: known, authority, text }
}

function refused(text: string, clause: string): RangeError {
  return new RangeError(`${EXPECTED_URL}, found "${withoutUserinfo(text)}", ${clause}`)
}

/** `tracing.sample` when the key is absent. */
export const DEFAULT_SAMPLE = 1

const EXPECTED_SHARE = 'expected a number from 0 to 1'

export const tracing = section({
  otlp: parsed(
    text('a URL such as "http://127.0.0.1:4318/v1/traces"', { pattern: URL_PATTERN }),
    parseCollectorUrl,
  )
    .describe('The URL of the collector for OTLP/HTTP; spans are sent as JSON.')
    .meta({ examples: ['http://127.0.0.1:4318/v1/traces'] }),
  sample: z
    .number({ error: EXPECTED_SHARE })
    .min(0, { error: EXPECTED_SHARE })
    .max(1, { error: EXPECTED_SHARE })
    .meta({ title: 'a number from 0 to 1' })
    .prefault(DEFAULT_SAMPLE)
    .describe(
      'The share of the traces beginning here whose spans are sent; other traces are sampled as their sender says.',
    ),
  headers_file: z
    .exactOptional(filePath)
    .describe(
      'A file with fields that the collector asks for, such as Authorization, one `Name: value` a line.',
    )
    .meta({ examples: ['otlp.headers'] }),
}).transform(({ headers_file: headersFile, ...rest }) => ({
  ...rest,
  ...(headersFile === undefined ? {} : { headersFile }),
}))
