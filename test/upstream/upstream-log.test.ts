import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { createLogger } from '../../src/observe/log.js'
import { logUpstream } from '../../src/upstream/upstream-log.js'

t.test('an upstream that goes down is a warning, one that comes back is not', async t => {
  const lines: unknown[] = []
  const logger = createLogger('info', { write: line => void lines.push(JSON.parse(line)) })
  const upstream = { source: 'origins[0].forward', url: 'http://up.test:80' }
  logUpstream(logger, upstream, new ProxyError('connection_refused', 'refused'))
  logUpstream(logger, upstream, undefined)
  t.match(lines, [
    {
      level: 'warn',
      event: 'upstream_down',
      source: 'origins[0].forward',
      upstream: 'http://up.test:80',
      error: 'connection_refused',
    },
    { level: 'info', event: 'upstream_up', upstream: 'http://up.test:80' },
  ])
})
