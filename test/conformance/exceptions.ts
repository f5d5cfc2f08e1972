/**
 * Tests of the suite that do not show whether a cache conforms to RFC 9111. They are run and printed, but do not count.
 */

export interface Exception {
  readonly because: string
  /** The ids of the tests, or a common prefix of ids, followed by `*`. */
  readonly ids: readonly string[]
}

export const EXCEPTIONS: readonly Exception[] = [
  {
    because: 'the first member of Age counts, and an Age that is invalid is ignored (RFC 9111 §5.1)',
    ids: [
      'age-parse-nonnumeric',
      'age-parse-negative',
      'age-parse-float',
      'age-parse-prefix-twoline',
      'age-parse-dup-0',
      'age-parse-dup-0-twoline',
      'age-parse-dup-old',
      'age-parse-parameter',
      'age-parse-numeric-parameter',
    ],
  },
  {
    because:
      'the origin closes the connection, but a field of the origin is expected in the response, which is a 5xx of the cache (RFC 9111 §4.2.4)',
    ids: [
      'stale-close-must-revalidate',
      'stale-close-proxy-revalidate',
      'stale-close-no-cache',
      'stale-close-s-maxage=2',
    ],
  },
  {
    because: 'the origin sends an unknown transfer coding, which makes the response invalid (RFC 9112 §6.1)',
    ids: ['headers-store-Transfer-Encoding'],
  },
  {
    because:
      'Surrogate-Control is for caches that belong to the origin (W3C Edge Architecture); its successor CDN-Cache-Control (RFC 9213) is tested below',
    ids: ['surrogate-*'],
  },
  {
    because:
      'a response is expected to match a request with another Accept-Language by its Content-Language, which is not a match (RFC 9111 §4.1)',
    ids: ['vary-normalise-lang-select'],
  },
]

/** @returns why a test does not count; undefined if it counts */
export function exceptionOf(id: string): Exception | undefined {
  return EXCEPTIONS.find(({ ids }) => ids.some(own => matches(own, id)))
}

/** @returns the ids of exceptions for which there is no test */
export function unknownIds(tests: readonly string[]): readonly string[] {
  return EXCEPTIONS.flatMap(({ ids }) => ids).filter(own => !tests.some(id => matches(own, id)))
}

function matches(own: string, id: string): boolean {
  return own.endsWith('*') ? id.startsWith(own.slice(0, -1)) : id === own
}
