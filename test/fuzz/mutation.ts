/**
 * Inputs that are almost requests: a corpus of valid and borderline requests, and mutations of them. A mutation is plain
 * data, so that it can be drawn by a simple generator and shrunk by fast-check.
 */

const lines = (...texts: string[]) => `${texts.join('\r\n')}\r\n`

/** Valid requests; some entries contain several. */
export const CORPUS: readonly Buffer[] = [
  lines('GET / HTTP/1.1', 'Host: a', ''),
  lines('GET /p?q=1 HTTP/1.0', 'User-Agent: x/1', 'Accept: */*', ''),
  lines(
    'HEAD http://a.example:8080/x HTTP/1.1',
    'Host: a.example:8080',
    'Connection: close, X-A',
    'X-A: \t1 \t',
    '',
  ),
  lines('POST /c HTTP/1.1', 'Host: a', 'Content-Length: 5', '', 'hello').slice(0, -2),
  lines(
    'PUT /c HTTP/1.1',
    'Host: a',
    'Transfer-Encoding: chunked',
    '',
    '5',
    'hello',
    'A',
    '0123456789',
    '0',
    '',
  ),
  lines(
    'PATCH / HTTP/1.1',
    'Transfer-Encoding: Chunked',
    '',
    '3;a=b;c="d\\"e"',
    '\r\n!',
    '0;x',
    'ETag: "a"',
    'X:',
    '',
  ),
  lines('CONNECT a.example:443 HTTP/1.1', 'Host: a.example:443', 'Proxy-Authorization: Basic eDp5', ''),
  lines('OPTIONS * HTTP/1.1', 'Host: a', 'Max-Forwards: 0', '', '', 'TRACE / HTTP/1.2', 'Host: [::1]:80', ''),
  lines('DELETE /d HTTP/1.1', 'Host: a', 'Content-Length: 0', '', 'GET /e HTTP/1.1', 'Host: \x80\xff', ''),
  lines('', '', 'GET / HTTP/1.1', 'Host: a', 'Expect: 100-continue', 'Content-Length: 1', '', 'x').slice(
    0,
    -2,
  ),
].map(text => Buffer.from(text, 'latin1'))

/** Bytes that are significant in the grammar, to be inserted where they do not belong. */
export const FRAGMENTS: readonly Buffer[] = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    ':',
    ' ',
    '\t',
    ';',
    '=',
    '"',
    '\\',
    ',',
    '\0',
    '\x0b',
    '\x7f',
    '\x80',
    '\xff',
  ],
  ...[
    '0',
    '5',
    'f',
    '+',
    '-',
    '0x',
    '0\r\n\r\n',
    '5\r\nhello\r\n',
    ' HTTP/1.1\r\n',
    'HTTP/2.0',
    '1.0',
    'GET / ',
  ],
  ...[
    'Content-Length: 5\r\n',
    'Content-Length: 0\r\n',
    'Transfer-Encoding: chunked\r\n',
    'X: y\r\n',
    ' folded\r\n',
  ],
  ...[
    'chunked',
    'gzip, chunked',
    ';a="b"',
    'Host: a\r\n',
    'Trailer: x\r\n',
    '9007199254740993',
    'fffffffffffff',
  ],
].map(text => Buffer.from(text, 'latin1'))

/** `at`, `from` and `count` are reduced to the length of the input; `fragment` and `other` select from the lists above. */
export type Mutation =
  | { readonly kind: 'flip'; readonly at: number; readonly bits: number }
  | { readonly kind: 'delete'; readonly at: number; readonly count: number }
  | { readonly kind: 'insert'; readonly at: number; readonly fragment: number }
  | { readonly kind: 'duplicate'; readonly at: number; readonly count: number }
  | { readonly kind: 'splice'; readonly at: number; readonly other: number; readonly from: number }

const pick = <T>(list: readonly [T, ...T[]] | readonly T[], index: number): T =>
  list[index % list.length] as T

/** @returns a mutated copy of the input */
export function mutate(input: Buffer, mutation: Mutation): Buffer {
  const at = mutation.at % (input.length + 1)
  const before = input.subarray(0, at)
  switch (mutation.kind) {
    case 'flip': {
      const flipped = Buffer.from(input)
      if (at < flipped.length) flipped[at] = (flipped[at] as number) ^ (mutation.bits & 0xff)
      return flipped
    }
    case 'delete':
      return Buffer.concat([before, input.subarray(at + mutation.count)])
    case 'insert':
      return Buffer.concat([before, pick(FRAGMENTS, mutation.fragment), input.subarray(at)])
    case 'duplicate':
      return Buffer.concat([input.subarray(0, at + mutation.count), input.subarray(at)])
    case 'splice': {
      const other = pick(CORPUS, mutation.other)
      return Buffer.concat([before, other.subarray(mutation.from % other.length)])
    }
  }
}
