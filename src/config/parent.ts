/**
 * `parent`: the proxy that requests are sent through, or several, of which the first that can be reached is used.
 *
 * The URL holds no credentials: configurations are committed, shown and logged, so credentials have a file of their own.
 */
import * as z from 'zod'
import { type HostPattern, parseHostPattern } from '../net/host-pattern.js'
import { filePath, list, nonEmptyList, parsed, parsedItems, section, text } from './fields.js'
import { EXPECTED_UPSTREAM, parseUpstreamUrl, UPSTREAM_PATTERN, type UpstreamUrl } from './upstream-url.js'

const EXPECTED_DIRECT = 'a host name, ".example.com", an IP address or a CIDR'

const urlText = text('a URL such as "http://proxy.corp:8080"', { pattern: UPSTREAM_PATTERN })

const url = parsedItems(
  z
    .union([urlText, nonEmptyList(urlText, 'a list of URLs')], {
      error: `${EXPECTED_UPSTREAM}, or a list of them`,
    })
    .meta({ title: 'a URL such as "http://proxy.corp:8080", or a list of them' }),
  parseParentUrl,
)

/** @throws RangeError whose message says what was expected, and never repeats what precedes an `@` */
function parseParentUrl(written: string): UpstreamUrl {
  if (written.includes('@')) {
    throw new RangeError(
      'found credentials in the URL; write them as user:password into a file, and its path into basic_file',
    )
  }
  return parseUpstreamUrl(written)
}

const direct = parsed(text(EXPECTED_DIRECT), parseDirectHost)

/** `.example.com`, as in the NO_PROXY of other programs, means `*.example.com`. */
function parseDirectHost(written: string): HostPattern {
  const isBelow = written.startsWith('.') && !written.includes('/')
  const pattern = parseHostPattern(isBelow ? `*${written}` : written, { expected: EXPECTED_DIRECT, written })
  if (pattern.kind !== 'any') return pattern
  throw new RangeError(`expected ${EXPECTED_DIRECT}, found "*"; leave parent out to send nothing through one`)
}

export const parent = parsed(
  section({
    url: url
      .describe(
        'The URL of the parent proxy, by `http://` or `https://`, without credentials; or a list, of which the first that can be reached is used.',
      )
      .meta({ examples: ['http://proxy.corp:8080'] }),
    basic_file: z
      .exactOptional(filePath)
      .describe('A file with one line, `user:password`, for the parent. Never logged.')
      .meta({ examples: ['parent.basic'] }),
    ca: z
      .exactOptional(filePath)
      .describe('Authorities of `https://` parents, in PEM, in place of the public ones.')
      .meta({ examples: ['parent-ca.crt'] }),
    no_proxy: list(direct, `a list of hosts that are reached directly; each ${EXPECTED_DIRECT}`)
      .prefault([])
      .describe(
        'Hosts that are reached directly: names, `".example.com"` (all names below, not itself), IP addresses and CIDRs. CIDRs match only requests that name an address.',
      ),
  }),
  ({ url: urls, basic_file: basicFile, ca, no_proxy: noProxy }) => {
    if (ca !== undefined && !urls.some(({ scheme }) => scheme === 'https')) {
      throw new RangeError('ca is for https:// parents, and url names none')
    }
    return { urls, noProxy, basicFile, ca }
  },
)
