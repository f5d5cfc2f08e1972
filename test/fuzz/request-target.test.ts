import fc from 'fast-check'
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { parseAuthority } from '../../src/http/authority.js'
import { METHOD_NAMES } from '../../src/http/method.js'
import { parseRequestTarget } from '../../src/http/request-target.js'
import { runs } from '../kit/runs.js'

const PARTS = [
  'http://',
  'https://',
  '/',
  '//',
  '?',
  '#',
  '*',
  '@',
  ':',
  '80',
  '0',
  '65536',
  'a',
  'A.b',
  '.',
  '..',
  '[',
]
const MORE = [
  ']',
  '[::1]',
  '%2e',
  '%',
  '\\',
  '127.1',
  '127.0.0.1',
  '0x7f',
  '1',
  'xn--a',
  '-',
  '_',
  ';',
  ',',
  '\x80',
  ' ',
]

/** Texts that look like a target, and others. */
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom(...PARTS, ...MORE), maxLength: 10 }),
  fc.string({ unit: fc.constantFrom(...PARTS, ...MORE), maxLength: 6 }).map(rest => `http://${rest}`),
  fc.string({ unit: 'binary', maxLength: 20 }),
)

/** The value, or undefined for a ProxyError 400; other errors are thrown. */
function attempt<T>(parse: () => T): T | undefined {
  try {
    return parse()
  } catch (error) {
    if (error instanceof ProxyError && error.status === 400) return undefined
    throw error
  }
}

/** Host and port according to Node's URL parser; undefined if it refuses what our parser accepts. */
function platformView(hostPort: string): { host: string; port: number } | undefined {
  try {
    const { hostname, port } = new URL(`http://${hostPort}/`)
    const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
    return { host, port: port === '' ? 80 : Number(port) }
  } catch {
    return undefined
  }
}

t.test('any text is a target in a form that its method allows, or a ProxyError (RFC 9112 §3.2)', async t => {
  const property = fc.property(fc.constantFrom(...METHOD_NAMES), text, (method, target) => {
    const parsed = attempt(() => parseRequestTarget(method, target))
    if (parsed === undefined) return
    if ((parsed.form === 'authority') !== (method === 'CONNECT')) throw new Error(parsed.form)
    if (parsed.form === 'asterisk' && method !== 'OPTIONS') throw new Error(parsed.form)
    if (parsed.form === 'absolute' && !target.includes(parsed.authority.text))
      throw new Error('text was changed')
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: runs(20_000) }))
})

t.test('an accepted host and port means the same to the URL parser (RFC 3986 §3.2.2)', async t => {
  let taken = 0
  const property = fc.property(text, candidate => {
    const authority = attempt(() => parseAuthority(candidate, 80))
    if (authority === undefined) return
    taken++
    const other = platformView(candidate)
    if (other === undefined) return
    const { host, port } = authority
    const name = host.kind === 'ipv6' ? platformView(`[${host.name}]`)?.host : host.name
    if (other.host !== name || other.port !== port)
      throw new Error(`${name}:${port} is not ${fc.stringify(other)}`)
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: runs(20_000, 4000) }))
  t.ok(taken > runs(100), `${taken} taken`)
})
