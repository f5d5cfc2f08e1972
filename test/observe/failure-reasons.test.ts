import t from 'tap'
import { PROXY_ERRORS, ProxyError, type ProxyErrorType } from '../../src/errors.js'
import { limitReached } from '../../src/limits/refusals.js'
import { FAILURE_REASONS, isFailure } from '../../src/observe/failure-reasons.js'
import { REASONS } from '../../src/observe/reasons.js'
import { readSourceFiles } from '../architecture/source-files.js'
import { readSection } from '../kit/readmes.js'
import { upstreamFailure } from '../../src/upstream/failures.js'

const known: readonly string[] = FAILURE_REASONS
const error = (type: ProxyErrorType, reason?: string) =>
  new ProxyError(type, 'm', reason === undefined ? {} : { reason })

t.test('what the far side is at fault for is a failure, and stands in the closed list', async t => {
  for (const [type, { side }] of Object.entries(PROXY_ERRORS) as [ProxyErrorType, { side: string }][]) {
    if (side !== 'upstream') continue
    for (const decision of ['allow', 'would_deny'] as const) t.ok(isFailure(error(type), decision), type)
    // It is never made without a reason of its own.
    if (type !== 'connection_write_timeout') t.ok(known.includes(type), type)
  }
})

t.test('faults of this proxy behind its decision are failures, refusals are none', async t => {
  t.ok(isFailure(error('proxy_internal_error'), 'allow'))
  t.ok(isFailure(error('proxy_internal_error'), 'deny'), 'even where there was no other decision')
  t.ok(isFailure(error('proxy_internal_response', 'store_full'), 'allow'))
  t.ok(isFailure(error('proxy_loop_detected', 'loop'), 'allow'))
  const full = upstreamFailure(Object.assign(new Error('x'), { code: 'EMFILE' }), 'a:80')
  for (const decision of ['allow', 'deny'] as const) t.ok(isFailure(full, decision))
  t.notOk(isFailure(error('proxy_loop_detected', 'own_address'), 'deny'))
  t.notOk(isFailure(error('http_request_denied', 'no_rule'), 'deny'))
  t.notOk(isFailure(error('http_request_denied', 'store_write'), 'allow'))
  t.notOk(isFailure(limitReached('tunnels', '1'), 'deny'))
  t.notOk(isFailure(error('http_request_error', 'only_if_cached'), 'allow'), 'the client asked for that')
  t.notOk(isFailure(error('destination_not_found', 'not_found'), 'allow'))
})

t.test('no reason stands twice, each is explained, and each of the sources is there', async t => {
  t.equal(new Set(known).size, known.length)
  for (const reason of known) t.ok(REASONS.has(reason), reason)
  // Where errors are made that an exchange may meet behind its decision, and that are not of the client.
  const made = /new ProxyError\(\s*'(\w+)'[^;]*?\breason: '(\w+)'/g
  let found = 0
  for (const [file, text] of readSourceFiles('src')) {
    for (const [, type = '', reason = ''] of text.matchAll(made)) {
      if (!Object.hasOwn(PROXY_ERRORS, type)) continue
      if (!isFailure(error(type as ProxyErrorType, reason), 'allow')) continue
      // Limits, and what is refused before the decision.
      if (file.startsWith('limits/') || file.startsWith('clients/')) continue
      found += 1
      t.ok(known.includes(reason), `${file}: ${reason}`)
    }
  }
  t.ok(found > 5, `${found}`)
})

t.test('the README lists every reason of a failure', async t => {
  const section = readSection('src/observe/README.md', 'Metrics')
  const line = section.split('\n').find(text => text.startsWith('| `reason` of failures |')) ?? ''
  t.same(
    [...line.slice(26).matchAll(/`([a-z_]+)`/g)].map(([, word]) => word),
    known,
  )
})
