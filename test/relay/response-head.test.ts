import t from 'tap'
import { checkFinalHead, checkInterimHead, endsWithHead } from '../../src/relay/response-head.js'

function head(status: number, fields: string[] = [], minor: 0 | 1 = 1) {
  return { status, minor, reason: '', fields }
}

t.test('a final head tells the length of the content (RFC 9112 §6.3)', async t => {
  t.equal(checkFinalHead(head(200)), undefined)
  t.equal(checkFinalHead(head(200, ['Content-Length', '5'])), 5)
  t.equal(checkFinalHead(head(999, ['Transfer-Encoding', 'CHUNKED'])), undefined)
  t.equal(checkFinalHead(head(404, ['Content-Length', '0'], 0)), 0)
})

t.test('a final status begins at 200 (RFC 9110 §15)', async t => {
  for (const status of [0, 99, 100, 199]) {
    t.throws(() => checkFinalHead(head(status)), { message: /./, type: 'http_protocol_error', status: 502 })
  }
  t.throws(() => checkFinalHead(head(101)), { message: /./, type: 'http_upgrade_failed', status: 502 })
})

t.test('HTTP/1.0 knows no transfer coding (RFC 9112 §6.1)', async t => {
  t.throws(() => checkFinalHead(head(200, ['transfer-encoding', 'chunked'], 0)), {
    message: /./,
    type: 'http_response_transfer_coding',
    status: 502,
  })
})

t.test('framing that can be read in two ways is refused (RFC 9112 §6.3)', async t => {
  const both = ['Content-Length', '5', 'Transfer-Encoding', 'chunked']
  t.throws(() => checkFinalHead(head(200, both)), { message: /./, type: 'http_protocol_error' })
})

t.test('every interim status but 101 may be passed on (RFC 9110 §15.2)', async t => {
  for (const status of [100, 102, 103, 199]) t.doesNotThrow(() => checkInterimHead(head(status)))
  for (const status of [0, 99]) {
    t.throws(() => checkInterimHead(head(status)), { message: /./, type: 'http_protocol_error' })
  }
  t.throws(() => checkInterimHead(head(101)), { message: /./, type: 'http_upgrade_failed' })
})

t.test('HEAD, 204 and 304 end with their head (RFC 9112 §6.3)', async t => {
  for (const [method, status, ends] of [
    ['HEAD', 200, true],
    ['HEAD', 404, true],
    ['GET', 204, true],
    ['POST', 304, true],
    ['GET', 200, false],
    ['GET', 203, false],
    ['GET', 205, false],
    ['GET', 303, false],
    ['GET', 305, false],
  ] as const) {
    t.equal(endsWithHead(method, status), ends, `${method} ${status}`)
  }
})
