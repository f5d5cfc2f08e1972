/**
 * Tests of the suite that say nothing about whether a cache keeps to RFC 9111. They are run and printed, and are no part
 * of the score.
 */

export interface Exception {
  readonly because: string
  /** Of the tests, or what the ids of all of them begin with: that ends with `*`. */
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
      'the origin closes the connection, and yet a field of its own is expected in the answer, which is a 5xx of the cache (RFC 9111 §4.2.4)',
    ids: [
      'stale-close-must-revalidate',
      'stale-close-proxy-revalidate',
      'stale-close-no-cache',
      'stale-close-s-maxage=2',
    ],
  },
  {
    because: 'the origin sends a transfer coding that there is not, which is a bad response (RFC 9112 §6.1)',
    ids: ['headers-store-Transfer-Encoding'],
  },
  {
    because:
      'Surrogate-Control is for caches that an origin has put in front of itself (W3C Edge Architecture); its successor CDN-Cache-Control (RFC 9213) is tested below',
    ids: ['surrogate-*'],
  },
  {
    because:
      'a response is expected for a request whose Accept-Language is another one, by its Content-Language, which is no match (RFC 9111 §4.1)',
    ids: ['vary-normalise-lang-select'],
  },
]

/** @returns why a test is not counted; undefined when it is */
export function exceptionOf(id: string): Exception | undefined {
  return EXCEPTIONS.find(({ ids }) => ids.some(own => matches(own, id)))
}

/** @returns the exceptions' ids that are none of any test */
export function unknownIds(tests: readonly string[]): readonly string[] {
  return EXCEPTIONS.flatMap(({ ids }) => ids).filter(own => !tests.some(id => matches(own, id)))
}

function matches(own: string, id: string): boolean {
  return own.endsWith('*') ? id.startsWith(own.slice(0, -1)) : id === own
}
