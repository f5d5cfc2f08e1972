import t from 'tap'
import { ProxyError } from '../src/errors.js'
import { Outcome } from '../src/outcome.js'

const MEASURED = { bytesUp: 1, bytesDown: 2, address: '192.0.2.1:80' }
const UPSTREAM = new ProxyError('connection_refused', 'm')
const OWN = new ProxyError('http_request_denied', 'm')

t.test('a full response is complete; a tunnel ends for its reason', async t => {
  t.same(Outcome.complete('forward', 204, MEASURED), {
    handler: 'forward',
    status: 204,
    closeReason: 'complete',
    ...MEASURED,
  })
  t.match(Outcome.complete('tunnel', 200, MEASURED, 'idle'), { status: 200, closeReason: 'idle' })
})

t.test('an error of the upstream is a failure, any other a refusal', async t => {
  t.same(Outcome.of('refusal', UPSTREAM), {
    handler: 'refusal',
    status: 502,
    closeReason: 'failed',
    bytesUp: 0,
    bytesDown: 0,
    error: UPSTREAM,
  })
  t.match(Outcome.of('refusal', OWN), { status: 403, closeReason: 'refused', error: OWN })
  t.match(Outcome.failed('tunnel', OWN, MEASURED), { status: 403, closeReason: 'failed', ...MEASURED })
  t.match(Outcome.refused('origin', UPSTREAM, MEASURED), { status: 502, closeReason: 'refused', ...MEASURED })
})

t.test('a response that ended early keeps the status that was sent', async t => {
  const broken = Outcome.incomplete('forward', 200, MEASURED, 'upstream_incomplete', UPSTREAM)
  t.match(broken, { status: 200, closeReason: 'upstream_incomplete', error: UPSTREAM, ...MEASURED })
  t.notOk('error' in Outcome.incomplete('origin', 200, MEASURED, 'failed'))
})

t.test('when the client is gone, the status is the one that was sent, or none', async t => {
  const gone = { kind: 'gone', closeReason: 'shutdown' } as const
  const none = { status: 0, closeReason: 'shutdown', bytesUp: 0, bytesDown: 0, error: undefined }
  t.match(Outcome.aborted('forward', gone), none)
  t.match(Outcome.aborted('forward', gone, MEASURED, 206), { ...none, ...MEASURED, status: 206 })
})

t.test('a request that failed has the status of its error unless another was sent', async t => {
  const failed = { kind: 'failed', closeReason: 'idle', error: OWN } as const
  t.match(Outcome.aborted('forward', failed), { status: 403, closeReason: 'idle', error: OWN })
  t.match(Outcome.aborted('forward', failed, MEASURED, 206), { status: 206, closeReason: 'idle', error: OWN })
})
