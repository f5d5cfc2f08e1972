/**
 * Tests of CDN-Cache-Control (RFC 9213) in the form of the suite: the targeted field takes precedence over Cache-Control
 * and Expires, and is ignored if it cannot be parsed.
 *
 * Each test requests a response, and requests it again three seconds later.
 */
import type { SuiteTest } from './score.js'

/** A field of a response: a numeric value is a date, in seconds from now; with `false`, the client does not check it. */
type Field = readonly [name: string, value: string | number, compared?: boolean]

interface SuiteRequest {
  readonly response_headers?: readonly Field[]
  readonly expected_type?: 'cached' | 'not_cached' | 'etag_validated'
  readonly expected_response_headers?: readonly (readonly [string, string])[]
  readonly setup?: boolean
  readonly pause_after?: boolean
}

export interface TargetedTest extends SuiteTest {
  readonly browser_skip: true
  readonly requests: readonly SuiteRequest[]
}

const FIELD = 'CDN-Cache-Control'
const DATE: Field = ['Date', 0]

function again(
  id: string,
  kind: 'required' | 'optimal',
  name: string,
  expected: 'cached' | 'not_cached',
  fields: readonly Field[],
): TargetedTest {
  return {
    id: `cdn-${id}`,
    kind,
    name,
    browser_skip: true,
    requests: [{ response_headers: fields, setup: true, pause_after: true }, { expected_type: expected }],
  }
}

const mustNotReuse = (id: string, name: string, ...fields: Field[]) =>
  again(id, 'required', `A cache must not reuse a response ${name}`, 'not_cached', fields)
const mayReuse = (id: string, name: string, ...fields: Field[]) =>
  again(id, 'optimal', `An optimal cache reuses a response ${name}`, 'cached', fields)

const STRUCTURED = 'that is not a structured field, and falls back on'

export const TARGETED: readonly TargetedTest[] = [
  mayReuse('max-age', 'with CDN-Cache-Control: max-age (§2.1)', [FIELD, 'max-age=3600']),
  mayReuse(
    'max-age-over-cc-short',
    'with a long CDN-Cache-Control and a short Cache-Control (§2.2)',
    ['Cache-Control', 'max-age=1'],
    [FIELD, 'max-age=3600'],
  ),
  mayReuse(
    'max-age-over-cc-no-store',
    'with CDN-Cache-Control: max-age and Cache-Control: no-store (§2.2)',
    ['Cache-Control', 'no-store'],
    [FIELD, 'max-age=3600'],
  ),
  mayReuse(
    'max-age-over-expires-past',
    'with CDN-Cache-Control: max-age and an Expires in the past (§2.2)',
    [FIELD, 'max-age=3600'],
    ['Expires', -10_000],
    DATE,
  ),
  mayReuse(
    'max-age-over-expires-invalid',
    'with CDN-Cache-Control: max-age and an Expires that is not a date (§2.2)',
    [FIELD, 'max-age=3600'],
    ['Expires', '0', false],
    DATE,
  ),
  mayReuse('unknown-directive', 'with an unknown directive in addition to max-age (§2.1)', [
    FIELD,
    'foobar, max-age=3600, baz=9;p="q"',
  ]),
  mayReuse('parameters', 'with parameters on max-age, which are ignored (§2.1)', [
    FIELD,
    'max-age=3600;foo=bar',
  ]),
  mayReuse(
    'two-lines',
    'with max-age in the second of two lines (RFC 9651 §4.2)',
    [FIELD, 'foobar'],
    [FIELD, 'max-age=3600'],
  ),
  mayReuse('last-value', 'with max-age twice, by the last one (RFC 9651 §3.2)', [
    FIELD,
    'max-age=1, max-age=3600',
  ]),
  mayReuse(
    'invalid-cc-fresh',
    `with a CDN-Cache-Control ${STRUCTURED} a fresh Cache-Control (§2.1)`,
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'no-store, &&&', false],
  ),
  mayReuse(
    'empty-cc-fresh',
    'with an empty CDN-Cache-Control and a fresh Cache-Control (§2.2)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, '', false],
  ),
  mustNotReuse(
    'max-age-under-cc-long',
    'with a short CDN-Cache-Control and a long Cache-Control (§2.2)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'max-age=1'],
  ),
  mustNotReuse(
    'max-age-0',
    'with CDN-Cache-Control: max-age=0 and a fresh Cache-Control (§2.2)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'max-age=0'],
  ),
  mustNotReuse(
    'max-age-0-expires',
    'with CDN-Cache-Control: max-age=0 and an Expires in the future (§2.2)',
    [FIELD, 'max-age=0'],
    ['Expires', 10_000],
    DATE,
  ),
  mustNotReuse(
    'age',
    'whose Age is greater than max-age of CDN-Cache-Control (§2.1)',
    [FIELD, 'max-age=3600'],
    ['Age', '7200'],
    DATE,
  ),
  mustNotReuse('no-store', 'with CDN-Cache-Control: no-store (§2.1)', [FIELD, 'no-store']),
  mustNotReuse(
    'no-store-cc-fresh',
    'with CDN-Cache-Control: no-store and a fresh Cache-Control (§2.2)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'no-store'],
  ),
  mustNotReuse(
    'no-cache-cc-fresh',
    'with CDN-Cache-Control: no-cache and a fresh Cache-Control without asking the origin (§2.2)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'no-cache, max-age=3600'],
  ),
  mustNotReuse(
    'private-cc-fresh',
    'with CDN-Cache-Control: private and a fresh Cache-Control in a shared cache (§2.2)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'private, max-age=3600'],
  ),
  mustNotReuse(
    'type-string',
    'whose max-age is a string, and so is ignored (§2.1)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'max-age="3600"'],
    ['Expires', 10_000],
    DATE,
  ),
  mustNotReuse(
    'type-token',
    'whose max-age is a token, and so is ignored (§2.1)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'max-age=soon'],
  ),
  mustNotReuse(
    'type-decimal',
    'whose max-age is a decimal, and so is ignored (§2.1)',
    ['Cache-Control', 'max-age=3600'],
    [FIELD, 'max-age=3600.5'],
  ),
  mustNotReuse(
    'invalid-cc-stale',
    `with a CDN-Cache-Control ${STRUCTURED} Cache-Control: no-store (§2.1)`,
    ['Cache-Control', 'no-store'],
    [FIELD, 'max-age=3600, &&&', false],
  ),
  mustNotReuse(
    'empty-cc-no-store',
    'with an empty CDN-Cache-Control and Cache-Control: no-store (§2.2)',
    ['Cache-Control', 'no-store'],
    [FIELD, '', false],
  ),
  mustNotReuse('last-value-0', 'with max-age twice, by the first one (RFC 9651 §3.2)', [
    FIELD,
    'max-age=3600, max-age=0',
  ]),
  {
    id: 'cdn-no-cache-validated',
    kind: 'optimal',
    name: 'An optimal cache validates a response with CDN-Cache-Control: no-cache (§2.1)',
    browser_skip: true,
    requests: [
      {
        response_headers: [
          [FIELD, 'no-cache'],
          ['ETag', '"abcd"'],
        ],
        setup: true,
        pause_after: true,
      },
      { expected_type: 'etag_validated' },
    ],
  },
  {
    id: 'cdn-forwarded',
    kind: 'optimal',
    name: 'An optimal cache forwards CDN-Cache-Control to the caches after it (§2.2)',
    browser_skip: true,
    requests: [
      {
        response_headers: [[FIELD, 'max-age=3600', false]],
        expected_response_headers: [[FIELD, 'max-age=3600']],
      },
    ],
  },
]

const IDS: ReadonlySet<string> = new Set(TARGETED.map(({ id }) => id))

/** Whether a test is one of these. */
export function isTargeted(id: string): boolean {
  return IDS.has(id)
}
